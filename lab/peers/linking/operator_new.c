/* C++ operator new for an allocator that comes without it, in C so that no C++ runtime is loaded
 * into C programs. HK_MALLOC and HK_MEMALIGN are the allocator's own functions. Each operator
 * delete is the allocator's free under another name: see lib.rs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

void *HK_MALLOC(size_t size);
void *HK_MEMALIGN(size_t alignment, size_t size);

/* What the standard asks for when memory is short: the new-handler, after which the caller tries
 * again, or std::bad_alloc where there is none. Both are looked up in the program's C++ runtime;
 * without one nobody could catch the exception. Must be compiled with -fexceptions. */
__attribute__((cold, noinline)) static void out_of_memory(void) {
    typedef void (*handler_t)(void);
    handler_t (*get_handler)(void) =
        (handler_t(*)(void))dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
    handler_t throw_bad_alloc = (handler_t)dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv");
    handler_t handler = get_handler ? get_handler() : NULL;

    if (handler)
        handler();
    else if (throw_bad_alloc)
        throw_bad_alloc();
    else
        abort();
}

/* The nothrow forms return null at the first failure and do not call the new-handler. */
#define PLAIN(throwing, nothrow)                                                                   \
    void *throwing(size_t size);                                                                   \
    void *nothrow(size_t size, const void *tag);                                                   \
    void *throwing(size_t size) {                                                                  \
        void *block;                                                                               \
        while (__builtin_expect(!(block = HK_MALLOC(size)), 0))                                    \
            out_of_memory();                                                                       \
        return block;                                                                              \
    }                                                                                              \
    void *nothrow(size_t size, const void *tag) {                                                  \
        (void)tag;                                                                                 \
        return HK_MALLOC(size);                                                                    \
    }

#define ALIGNED(throwing, nothrow)                                                                 \
    void *throwing(size_t size, size_t alignment);                                                 \
    void *nothrow(size_t size, size_t alignment, const void *tag);                                 \
    void *throwing(size_t size, size_t alignment) {                                                \
        void *block;                                                                               \
        while (__builtin_expect(!(block = HK_MEMALIGN(alignment, size)), 0))                       \
            out_of_memory();                                                                       \
        return block;                                                                              \
    }                                                                                              \
    void *nothrow(size_t size, size_t alignment, const void *tag) {                                \
        (void)tag;                                                                                 \
        return HK_MEMALIGN(alignment, size);                                                       \
    }

PLAIN(_Znwm, _ZnwmRKSt9nothrow_t)
PLAIN(_Znam, _ZnamRKSt9nothrow_t)
ALIGNED(_ZnwmSt11align_val_t, _ZnwmSt11align_val_tRKSt9nothrow_t)
ALIGNED(_ZnamSt11align_val_t, _ZnamSt11align_val_tRKSt9nothrow_t)
