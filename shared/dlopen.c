/* Wraps dlopen to drop RTLD_DEEPBIND. With that flag an object binds to the C library before the
 * program and preloaded libraries, and so would free hakmem's blocks by the C library's free
 * (docs/decisions/0034-unwinders-and-deep-binding.md). */
#include <dlfcn.h>

#include "api/api.h"
#include "base/base.h"
#include "base/calls.h"
#include "config/config.h"
#include "guard/guard.h"

#if defined(__GLIBC__) && !HK_NO_OVERRIDE && (defined(__x86_64__) || defined(__aarch64__))

typedef void *opener_t(const char *, int);

/* Two words, so it is returned in registers. */
typedef struct {
    opener_t *next;
    uintptr_t flags;
} call_t;

static void *opens_nothing(const char *name, int flags) {
    (void)name, (void)flags;
    return NULL;
}

static _Atomic(opener_t *) next; /* atomic: found once, without a guard */
static atomic_int takes;         /* atomic: found once; 1: hakmem serves, -1: not */

/* Returns the next dlopen and the flags to pass on. May run before our start, when the option is
 * not yet known. A guarded process looks the next dlopen up each time: an attacker who can write
 * anywhere could have any function called by a pointer that was kept. */
call_t hk_dlopen_as(unsigned flags) __attribute__((used, visibility("hidden")));
call_t hk_dlopen_as(unsigned flags) {
    const bool keeps = hk_guard->stirs == 0; /* on a read-only page; 0 without a guard */
    opener_t *fn = keeps ? hk_load_relaxed(&next) : NULL;
    if (HK_UNLIKELY(fn == NULL)) {
        *(void **)&fn = HK_KEEP_ERRNO(dlsym(RTLD_NEXT, "dlopen"));
        fn = fn != NULL ? fn : opens_nothing;
        if (keeps)
            hk_store_relaxed(&next, fn);
    }
    if (HK_UNLIKELY((flags & RTLD_DEEPBIND) != 0)) {
        if (hk_load_relaxed(&takes) == 0)
            hk_store_relaxed(&takes, HK_KEEP_ERRNO(hk_is_serving()) ? 1 : -1);
        if (hk_load_relaxed(&takes) == 1 && hk_option(deepbind) == 0)
            flags &= ~(unsigned)RTLD_DEEPBIND;
    }
    return (call_t){fn, flags};
}

/* Jumps to the next dlopen, so that the return address stays the caller's: by it the C library
 * finds the caller's RUNPATH and namespace. */
#ifdef __x86_64__
__asm__(".pushsection .text.dlopen, \"ax\", @progbits\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        ".p2align 4\n"
        "dlopen:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "push %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "mov %esi, %edi\n"
        "call hk_dlopen_as\n"
        "pop %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "mov %edx, %esi\n"
        "jmp *%rax\n"
        ".cfi_endproc\n"
        ".size dlopen, . - dlopen\n"
        ".popsection\n");
#else
__asm__(".pushsection .text.dlopen, \"ax\", @progbits\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        ".p2align 4\n"
        "dlopen:\n"
        ".cfi_startproc\n"
        "hint 34\n" /* bti c */
        "stp x29, x30, [sp, -32]!\n"
        ".cfi_def_cfa_offset 32\n"
        ".cfi_offset 29, -32\n"
        ".cfi_offset 30, -24\n"
        "mov x29, sp\n"
        "str x0, [sp, 16]\n"
        "mov w0, w1\n"
        "bl hk_dlopen_as\n" /* returns the flags in x1, their place */
        "mov x16, x0\n"
        "ldr x0, [sp, 16]\n"
        "ldp x29, x30, [sp], 32\n"
        ".cfi_restore 30\n"
        ".cfi_restore 29\n"
        ".cfi_def_cfa_offset 0\n"
        "br x16\n"
        ".cfi_endproc\n"
        ".size dlopen, . - dlopen\n"
        ".popsection\n");
#endif

#endif
