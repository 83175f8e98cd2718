/* How often the allocator has called the system, by kind. The list of kinds is calls.def.
 *
 * Counted where the call is made, and so in the lowest box: os and the locks' waiting are below
 * every box that keeps statistics. What the C library calls on its own account (to start a thread,
 * which is one call here; for its locks and streams) is not the allocator's. */
#pragma once

#include <errno.h>

#include "base/base.h"

typedef enum {
#define HK_CALL_KIND(kind, field, doc) HK_CALL_##kind,
#include "base/calls.def"
    HK_CALL_KINDS
} hk_call_t;

extern _Atomic uint64_t hk_calls[HK_CALL_KINDS]; /* atomic: any thread */

/* Makes a call of the system and counts it: HK_CALL(munmap, munmap(p, bytes)). None is made
 * otherwise. Any thread, signal handlers too. */
#define HK_CALL(kind, call) ((void)hk_add_relaxed(&hk_calls[HK_CALL_##kind], (uint64_t)1), (call))

/* What the expression says; errno is kept. */
#define HK_KEEP_ERRNO(expression)                                                                  \
    __extension__({                                                                                \
        const int hk_saved = errno;                                                                \
        const __typeof__(expression) hk_said = (expression);                                       \
        errno = hk_saved;                                                                          \
        hk_said;                                                                                   \
    })

/* The system's futex, by which everybody here waits and wakes. Numbers as <linux/futex.h> has them, which does not
 * come with every C library's headers. */
enum { HK_FUTEX_WAIT = 0 | 128, HK_FUTEX_WAKE = 1 | 128 };
struct timespec;
void hk_futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *most);

/* Copies the counts, and returns their sum. */
uint64_t hk_calls_read(uint64_t counts[HK_CALL_KINDS]);

/* In a fork's child, which counts from its own start. */
void hk_calls_forked(void);
