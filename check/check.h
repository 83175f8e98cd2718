/* libhakmem_check.so: wraps the C library's functions that write or read memory by a length, and
 * first checks that the length stays inside the block. Preloaded beside libhakmem.so. Without that,
 * or for pointers into no block of hakmem's, the functions are unchanged.
 *
 *   LD_PRELOAD=libhakmem_check.so:libhakmem.so HAKMEM_PROFILE=secure program
 *
 * All next functions are found at the start, by dlsym(), which takes the loader's lock and clears
 * the error of dlerror(): neither may happen later. A wrapper that is called earlier finds its next
 * function then. While dlsym() runs, which may itself copy, bytes are copied one by one. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hakmem/hakmem.h"

#pragma GCC diagnostic ignored                                                                     \
    "-Wmissing-prototypes" /* attributes and macros in their headers differ */
#define EXPORT __attribute__((visibility("default")))

typedef const void *source_t;

size_t strlen(const char *s);
size_t wcslen(const wchar_t *s);

extern __typeof__(hak_check_range) hak_check_range __attribute__((weak));
extern __typeof__(hak_room) hak_room __attribute__((weak));

static inline void check(const void *p, size_t n) {
    if (n != 0 && hak_check_range != NULL)
        hak_check_range(p, n);
}

/* n * size; SIZE_MAX if that overflows. */
static inline size_t times(size_t n, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes;
}

static inline size_t wide(size_t n) { return times(n, sizeof(wchar_t)); }
static inline size_t at_most(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t not_below_0(ssize_t n) { return n > 0 ? (size_t)n : 0; }

/* A wrapped function's next one, in a section of all of them. NULL: not found yet, or none. The
 * section has whole pages of its own: each file's part begins with one, and its last subsection
 * fills up the last, with nameless ones. */
#define PAGE 4096
#define ALIGN(subsection)                                                                          \
    __asm__(".pushsection hk_next, " #subsection ", \"aw\", %progbits\n"                           \
            ".balign 4096\n"                                                                       \
            ".popsection");
ALIGN(0)
ALIGN(1)
typedef struct {
    const char *name;
    _Atomic(void *) found; /* atomic: all threads find the same */
} next_t;

/* NULL during a search on this thread, and after the start. */
__attribute__((noinline, cold)) void *hk_check_search(next_t *next);

static inline void *next_of(next_t *next) {
    void *function = next->found;
    return function != NULL ? function : hk_check_search(next);
}

/* The next function of this name, with its type. */
#define NEXT(function)                                                                             \
    ({                                                                                             \
        static next_t next_one __attribute__((section("hk_next"))) = {.name = #function};          \
        (__typeof__(&function))next_of(&next_one);                                                 \
    })

/* A function that checks first; its value is `otherwise` while the next one is not found. */
#define CHECKED(type, name, parameters, checks, call, otherwise)                                   \
    EXPORT type name parameters {                                                                  \
        checks;                                                                                    \
        __typeof__(&name) next = NEXT(name);                                                       \
        return next != NULL ? next call : (otherwise);                                             \
    }

/* A function and its fortified form, which the compiler calls if it knows the target's size. That
 * form has checked the length only against what the compiler knew. */
#define ALL(...) __VA_ARGS__
#define BOTH(type, name, parameters, checks, call, otherwise)                                      \
    CHECKED(type, name, parameters, checks, call, otherwise)                                       \
    CHECKED(type, __##name##_chk, (ALL parameters, size_t room), checks, (ALL call, room),         \
            otherwise)

/* The same for a function that not every C library has, implemented here. It is not looked up: a
 * failed search allocates, which a program with its own malloc may not be ready for before it has
 * begun. */
#define OWN_CHK(type, name, parameters, checks, result)                                            \
    EXPORT type __##name##_chk(ALL parameters, size_t room) {                                      \
        if (n > room)                                                                              \
            __chk_fail != NULL ? __chk_fail() : __builtin_trap();                                  \
        checks;                                                                                    \
        return result;                                                                             \
    }
#define OWN(type, name, parameters, checks, result)                                                \
    EXPORT type name parameters {                                                                  \
        checks;                                                                                    \
        return result;                                                                             \
    }                                                                                              \
    OWN_CHK(type, name, parameters, checks, result)

/* What a fortified C library calls if a length exceeds what the compiler knew. */
extern __attribute__((noreturn, weak)) void __chk_fail(void);
