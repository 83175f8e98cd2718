/* A heap's stash: the large runs that its thread freed last, at hand for its next blocks of as many slices without a
 * look at the pool and its lock, which all threads share.
 *
 * A run that lies here is free to whoever frees it again (its kind says so), and carved to the pool: nothing purges it,
 * nothing is cut from it. So it is a loan that ends soon: where the heap grows, and at the second look for what
 * may go back (policy/look.h), one without use of the stash in between. */
#pragma once

#include "backend/superslab.h"

enum { HK_STASH_RUNS = 32 };

/* Zero: empty. Its heap's thread puts and takes; anybody clears. */
typedef struct {
    /* atomic: a run's descriptor, and in its lowest bits how many slices but one it has; 0: none */
    _Alignas(HK_CACHE_LINE) _Atomic uintptr_t runs[HK_STASH_RUNS];
    atomic_bool used; /* atomic: since it was last looked at */
    uint8_t next;     /* the thread's: where the next one goes, if that place is empty */
    uint8_t wanted;   /* the thread's: slices that were asked for last */
    uint8_t unasked;  /* the thread's: runs that came since, up to as many as there are places */
    uint8_t held; /* the thread's: slices here, and those that others have taken away meanwhile */
} hk_stash_t;

/* A run of so many slices, which nobody else has; NULL: there is none. */
hk_slab_t *hk_stash_take(hk_stash_t *stash, unsigned slices);

/* Puts a run there whose kind is free already; those that have to go for it, or itself, are the pool's. Returns the bytes
 * to tell of: of these and, where the stash has not been used since it was looked at, its own. */
size_t hk_stash_put(hk_stash_t *stash, hk_slab_t *run);

/* Gives all that is there to the pool. Any thread. */
void hk_stash_clear(hk_stash_t *stash);

/* The same, unless it has been used since this was called last. */
void hk_stash_look(hk_stash_t *stash);
