/* Chooses the allocations that a heap profile samples: each allocated byte has the same chance, one
 * in R (HAKMEM_PROF_SAMPLE_KB). So gaps are exponentially distributed, and a block of n bytes is
 * sampled with the chance 1 - exp(-n/R). Each thread counts down the bytes to its next sample.
 * Called with no lock held. */
#pragma once

#include "profile/table.h"

/* Starts again with mean R; 0: every allocation is a sample. The same seed gives the same samples
 * of a single thread. Stacks are empty unless hk_stack_prepare() has been called. */
void hk_profile_start(uint64_t mean, uint64_t seed);

/* The mean; the time of the last start by hk_os_now_ns(). */
uint64_t hk_profile_mean(void);
uint64_t hk_profile_began(void);

/* From this mean on samples are rare enough to lie apart, where their free is no hit
 * (front/watched.c). */
enum { HK_PROFILE_APART_FROM = 32 * HK_KIB };

/* Whether an allocation of n bytes is no sample; for n = 0 always, unless every one is. *own is the
 * thread's countdown, 0 at first. */
HK_INLINE bool hk_profile_passes(void **own, size_t n) {
    const uintptr_t left = (uintptr_t)*own;
    if (HK_UNLIKELY(n >= left || (intptr_t)left < 0))
        return false;
    *own = (void *)(left - n);
    return true;
}

/* Whether p may be a sample. */
HK_INLINE bool hk_profile_may_know(const void *p) {
    const _Atomic uint8_t *likes = hk_load_acquire(&hk_profile_likes);
    return likes != NULL && hk_load_relaxed(&likes[hk_profile_like(p)]) != 0;
}

/* n bytes at p have been allocated. True: they became a sample. `own` is NULL for a thread without
 * a countdown; `waits` as in hk_profile_add(). */
bool hk_profile_given(void **own, const void *p, size_t n, bool waits);
