/* The allocator's one kind of lock, and the order in which locks are taken.
 *
 * Taking a lock is one exchange; releasing it is one store and a check for sleepers. Waiters spin,
 * then sleep on a futex, the one waiting call that every sandbox allows. Hold times are some
 * hundred nanoseconds, and a heap's lock is nearly always taken by its own thread only. The hit
 * path takes no lock. */
#pragma once

#include "base/base.h"

/* The order, outermost first. A thread that holds a lock takes only locks of a higher rank; a
 * second lock of the same rank may only be tried. Debug builds check this. */
typedef enum {
    HK_RANK_WRITING,  /* base/report.c: files about the process */
    HK_RANK_CONFIG,   /* config/config.c: options that change while the process runs */
    HK_RANK_SHARED,   /* front/thread.c: the record used by threads that are past their end */
    HK_RANK_REGISTRY, /* front/thread.c: the list of thread records */
    HK_RANK_LOOK,     /* policy/look.c: a thread looks for memory to give back */
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
    atomic_uint sleepers; /* atomic: any thread; how many may sleep on `taken` */
    hk_rank_t rank;       /* const */
} hk_lock_t;

#define HK_LOCK_INIT(r)                                                                            \
    { .taken = 0, .sleepers = 0, .rank = (r) }

/* For assertions. A debug build counts the locks of each rank that a thread holds: a lock counts as
 * the calling thread's if it is taken and the thread holds a lock of its rank. */
bool hk_lock_is_mine(const hk_lock_t *lock);
/* Whether the calling thread holds no lock of this rank or a higher one, and so may take one. */
bool hk_lock_may_take(hk_rank_t rank);
void hk_lock_check(const hk_lock_t *lock, bool tried);
void hk_lock_note(const hk_lock_t *lock, bool taken);

/* hk_lock_unless() takes the lock, or returns false if `never` is set first. hk_lock_wait() is the
 * part that waits; with NULL it waits until it has the lock. */
bool hk_lock_unless(hk_lock_t *lock, const atomic_bool *never);
bool hk_lock_wait(hk_lock_t *lock, const atomic_bool *never);

/* Takes the lock; false if that fails for about most_tries times 50 us. */
bool hk_lock_patiently(hk_lock_t *lock, unsigned most_tries);

/* One pause of a thread that waits for something other than a lock, after `tries` failed ones:
 * spins, later sleeps, the longer the more threads sleep. Returns how many tries, of 50 us, it
 * stands for. */
unsigned hk_lock_pause(unsigned tries);

/* In a fork's child: the threads that slept are gone. */
void hk_lock_forked(hk_lock_t *lock);

void hk_lock_wake(hk_lock_t *lock);

/* A snapshot; it may have changed by the time the caller sees it. */
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
