/* The fastest clock there is, for measuring pieces of code. */
#pragma once

#include "base/base.h"

/* What hk_os_ticks() counts with, and hence what a tick is; and how many bits of them are a millisecond or a few. */
#if defined(__x86_64__)
#define HK_OS_TICKS "tsc"
#define HK_OS_TICKS_MS 22
#else
#define HK_OS_TICKS "cntvct"
#define HK_OS_TICKS_MS 17
#endif

/* Ticks since some moment: of the time-stamp counter or the generic timer, which both run at a
 * constant rate whatever the core's own clock does. Any thread; keeps errno.
 *
 * Nothing is fenced. A fence (lfence, isb) would make the code before it end before the clock is
 * read, and so add to the code that is measured a wait that it does not have otherwise; without,
 * the reading may be off by the instructions in flight, a few tens of cycles. */
HK_INLINE uint64_t hk_os_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}
