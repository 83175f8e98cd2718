/* The fastest clock there is, for measuring pieces of code. */
#pragma once

#include "base/base.h"

/* The counter behind hk_os_ticks(); and the number of low bits of a tick count that make up a
 * millisecond or a few. */
#if defined(__x86_64__)
#define HK_OS_TICKS "tsc"
#define HK_OS_TICKS_MS 22
#else
#define HK_OS_TICKS "cntvct"
#define HK_OS_TICKS_MS 17
#endif

/* Ticks of the time-stamp counter or the generic timer since some moment; both run at a constant
 * rate, whatever the core's clock. Any thread; keeps errno.
 *
 * There is no fence: lfence or isb would make earlier instructions finish first and so add a wait
 * to the measured code. Without, a reading may be off by the instructions in flight, a few tens of
 * cycles. */
HK_INLINE uint64_t hk_os_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}
