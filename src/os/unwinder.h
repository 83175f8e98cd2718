/* The functions of the compiler's unwinder that os/stack.c calls. */
#pragma once

#include <unwind.h>

typedef struct {
    __typeof__(_Unwind_Backtrace) *walk;
    __typeof__(_Unwind_GetIPInfo) *address;
    __typeof__(_Unwind_GetCFA) *stack;
    __typeof__(_Unwind_GetGR) *reg;
    int (*object)(void *address,
                  void *found); /* the C library's; NULL: it has none (glibc < 2.35, musl) */
} hk_unwinder_t;

/* Fills in all fields but `object`, which it uses, with a private copy of the unwinder. Linked into
 * both libraries (shared/unwinder.c); NULL elsewhere. */
__attribute__((weak, visibility("hidden"))) void hk_unwinder_own(hk_unwinder_t *unwinder);
