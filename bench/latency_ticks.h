/* The processor's own clock, read so that what is timed neither begins before the first reading nor
 * goes on after the second. */
#ifndef HB_LATENCY_TICKS_H
#define HB_LATENCY_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t hb_ticks_begin(void) {
    _mm_lfence();
    const uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
}
static inline uint64_t hb_ticks_end(void) {
    unsigned processor;
    const uint64_t ticks = __rdtscp(&processor);
    _mm_lfence();
    return ticks;
}
#elif defined(__aarch64__)
static inline uint64_t hb_ticks_begin(void) {
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    return ticks;
}
static inline uint64_t hb_ticks_end(void) { return hb_ticks_begin(); }
#else
#error "no clock of the processor is known here"
#endif

#endif
