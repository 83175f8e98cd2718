/* dlopen without RTLD_DEEPBIND. What is opened with that asks the C library before the program and what is preloaded, and
 * so frees by the C library's free what hakmem gave out (docs/decisions/0034-unwinders-and-deep-binding.md). */
#include <dlfcn.h>

#include "api/api.h"
#include "base/base.h"
#include "base/calls.h"
#include "config/config.h"

#if defined(__GLIBC__) && !HK_NO_OVERRIDE && (defined(__x86_64__) || defined(__aarch64__))

typedef void *opener_t(const char *, int);

/* Returned in two registers. */
typedef struct {
    opener_t *next;
    uintptr_t flags;
} call_t;

static void *opens_nothing(const char *name, int flags) {
    (void)name, (void)flags;
    return NULL;
}

static _Atomic(opener_t *) next; /* atomic: found once */
static atomic_int takes;         /* atomic: found once; 1: hakmem serves, -1: not */

/* What dlopen does with its flags, and who does it; maybe before our start, and then the option is not known. */
call_t hk_dlopen_as(unsigned flags) __attribute__((used, visibility("hidden")));
call_t hk_dlopen_as(unsigned flags) {
    opener_t *fn = hk_load_relaxed(&next);
    if (HK_UNLIKELY(fn == NULL)) {
        *(void **)&fn = HK_KEEP_ERRNO(dlsym(RTLD_NEXT, "dlopen"));
        fn = fn != NULL ? fn : opens_nothing;
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

/* A jump, so that the one who opens is whoever called: whose RUNPATH is searched and into whose namespace the object goes
 * the C library tells by the return address. */
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
        "bl hk_dlopen_as\n" /* the flags are in x1, as they are to be */
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
