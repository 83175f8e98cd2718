/* A heap's stash: the large runs that its thread freed last. They serve its next blocks of as many
 * slices without the pool's lock, which all threads share.
 *
 * A run on a stash has kind FREE, so a second free of it is caught. To the pool it is still carved:
 * nothing purges it, and nothing is cut from it. So it is a loan that ends soon: when the heap
 * grows, and at the second look for memory to give back (policy/look.h) without use of the stash in
 * between. */
#pragma once

#include "backend/superslab.h"

enum { HK_STASH_RUNS = 32 };

/* Zero: empty. The heap's thread, the owner, puts and takes; any thread clears. */
typedef struct {
    /* atomic: a run's descriptor, and in the lowest bits its number of slices less one; 0: none */
    _Alignas(HK_CACHE_LINE) _Atomic uintptr_t runs[HK_STASH_RUNS];
    atomic_bool used; /* atomic: the stash was used since the last look */
    uint8_t next;     /* owner: where the next run goes; made free if it is taken */
    uint8_t wanted;   /* owner: slices of the latest request */
    uint8_t unasked;  /* owner: runs put here since that request, at most HK_STASH_RUNS */
    /* owner: upper bound on the slices here; runs that other threads cleared still count */
    uint8_t held;
} hk_stash_t;

/* Takes a run of `slices` slices off the stash; NULL: there is none. */
hk_slab_t *hk_stash_take(hk_stash_t *stash, unsigned slices);

/* Puts a run whose kind is FREE already on the stash. Runs evicted for it, or the run itself if it
 * does not fit, go to the pool. Returns the bytes to report as free: those of runs that went to the
 * pool and, at the first use since the last look, the run's own. */
size_t hk_stash_put(hk_stash_t *stash, hk_slab_t *run);

/* Gives all runs to the pool. Any thread. */
void hk_stash_clear(hk_stash_t *stash);

/* The same for the owner, which knows when there are none. */
HK_INLINE void hk_stash_clear_own(hk_stash_t *stash) {
    if (HK_UNLIKELY(stash->held != 0)) {
        hk_stash_clear(stash);
        stash->held = 0;
    }
}

/* Gives all runs to the pool, unless the stash was used since the last call. Any thread. */
void hk_stash_look(hk_stash_t *stash);
