/* The fastest clock there is, for measuring pieces of code. */
#ifndef HK_OS_TICKS_H
#define HK_OS_TICKS_H

#include "base/base.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <time.h>
#endif

/* What hk_os_ticks() counts with, and hence what a tick is. */
#if defined(__x86_64__)
#define HK_OS_TICKS "tsc"
#elif defined(__aarch64__)
#define HK_OS_TICKS "cntvct"
#else
#define HK_OS_TICKS "ns"
#endif

/* Ticks since some moment: of the time-stamp counter or the generic timer, which both run at a
 * constant rate whatever the core's own clock does; else nanoseconds. Any thread; keeps errno.
 *
 * Nothing is fenced. A fence (lfence, isb) would make the code before it end before the clock is
 * read, and so add to the code that is measured a wait that it does not have otherwise; without,
 * the reading may be off by the instructions in flight, a few tens of cycles. */
HK_INLINE uint64_t hk_os_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
#endif
}

#endif
