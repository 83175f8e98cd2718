/* One kind of lock, and the order in which locks are taken.
 *
 * A lock is one exchange to take, one store and a look to release when nobody waits. Waiters spin,
 * then sleep on a futex, the one call for waiting that every sandbox allows: hold times are some
 * hundred nanoseconds and a heap's lock is nearly always taken by its own thread only. No lock is
 * ever taken on the hit path. */
#pragma once

#include "base/base.h"

/* The order, outermost first. A thread that holds a lock takes only locks of a higher rank; a
 * second lock of the same rank is only ever tried. Debug builds check it at run time. */
typedef enum {
    HK_RANK_WRITING,  /* base/report.c: files about the process */
    HK_RANK_CONFIG,   /* config/config.c: options that change while the process runs */
    HK_RANK_SHARED,   /* front/thread.c: the record used by threads that are past their end */
    HK_RANK_REGISTRY, /* front/thread.c: the list of thread records */
    HK_RANK_LOOK,     /* policy/look.c: somebody looks for what may go back */
    HK_RANK_PURGE,    /* backend/purge.c: blocks and slices are claimed for a purge */
    HK_RANK_HEAP,     /* backend/heap.c: one per heap */
    HK_RANK_ADDING,   /* backend/superslab.c: a superslab is being added */
    HK_RANK_POOL,     /* backend/superslab.c: free slices */
    HK_RANK_PACK,     /* backend/pack.c: blocks that share slices */
    HK_RANK_REGION,   /* backend/region_cache.c: cached address ranges */
    HK_RANK_BREATH,   /* backend/breath.c: what is given back and taken again */
    HK_RANK_CLASSES,  /* backend/sizeclass.c: learning */
    HK_RANK_META,     /* backend/meta.c: the allocator's own memory */
    HK_RANK_PROFILE,  /* profile/table.c: samples and stacks; also by a signal's handler, whatever
                       * the thread holds that it interrupts */
    HK_RANKS
} hk_rank_t;

typedef struct {
    atomic_uint taken;    /* atomic: any thread */
    atomic_uint sleepers; /* atomic: any thread; who may be asleep on `taken` */
    hk_rank_t rank;       /* const */
} hk_lock_t;

#define HK_LOCK_INIT(r)                                                                            \
    { .taken = 0, .sleepers = 0, .rank = (r) }

/* For assertions. What a debug build knows is how many locks of each rank a thread holds: a lock
 * counts as the calling thread's where somebody holds it and the thread holds one of that rank. */
bool hk_lock_is_mine(const hk_lock_t *lock);
/* The calling thread holds no lock of this rank or of a higher one: it may take one. */
bool hk_lock_may_take(hk_rank_t rank);
void hk_lock_check(const hk_lock_t *lock, bool tried);
void hk_lock_note(const hk_lock_t *lock, bool taken);

/* Takes the lock, unless `never` is set before it can be had: false, and it is not taken. The second one is the part of
 * this and of hk_lock() that waits; NULL: it does so until the lock can be had. */
bool hk_lock_unless(hk_lock_t *lock, const atomic_bool *never);
bool hk_lock_wait(hk_lock_t *lock, const atomic_bool *never);

/* Takes the lock, unless it is not to be had in about so many times 50 us. */
bool hk_lock_patiently(hk_lock_t *lock, unsigned most_tries);

/* What a waiter for something else does after so many tries in vain: spins, then sleeps a
 * little, and the longer the more there are. Returns for how many tries that stands, each of 50 us. */
unsigned hk_lock_pause(unsigned tries);

/* In a fork's child, which has none of the threads that slept. */
void hk_lock_forked(hk_lock_t *lock);

void hk_lock_wake(hk_lock_t *lock);

/* A look: it may have changed by the time the caller knows. */
HK_INLINE bool hk_lock_is_taken(const hk_lock_t *lock) {
    return hk_load_relaxed(&lock->taken) != 0;
}

HK_INLINE bool hk_lock_try(hk_lock_t *lock) {
    hk_walk(hk_lock_check(lock, true));
    if (hk_lock_is_taken(lock) || hk_exchange_acquire(&lock->taken, 1u) != 0)
        return false;
    hk_walk(hk_lock_note(lock, true));
    return true;
}

HK_INLINE void hk_lock(hk_lock_t *lock) {
    hk_walk(hk_lock_check(lock, false));
    if (HK_UNLIKELY(hk_exchange_acquire(&lock->taken, 1u) != 0))
        hk_lock_wait(lock, NULL);
    hk_walk(hk_lock_note(lock, true));
}

HK_INLINE void hk_unlock(hk_lock_t *lock) {
    hk_walk(hk_lock_note(lock, false));
    hk_store_release(&lock->taken, 0u);
    if (HK_UNLIKELY(hk_load_relaxed(&lock->sleepers) != 0))
        hk_lock_wake(lock);
}
