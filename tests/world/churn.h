// Background threads that allocate, free and exchange blocks until told to stop: the load under
// which forks, signals and exec happen.
#ifndef WORLD_CHURN_H
#define WORLD_CHURN_H

#include "pattern.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CHURN_SLOTS = 512, CHURN_MAX_THREADS = 8 };

// Whoever exchanges a pointer out of a slot owns the block, in the parent and in a forked child.
static _Atomic(block_t *) churn_slots[CHURN_SLOTS];
static atomic_bool churn_stop;
static atomic_ulong churn_operations;
static pthread_t churn_threads[CHURN_MAX_THREADS];

static inline void churn_step(uint64_t *rng) {
    size_t n = rng_below(rng, 64) == 0 ? rng_size(rng, 600 << 10) : rng_size(rng, 4096);
    block_t *mine = block_new(n, rng_next(rng));
    block_delete(atomic_exchange(&churn_slots[rng_below(rng, CHURN_SLOTS)], mine));
    atomic_fetch_add_explicit(&churn_operations, 1, memory_order_relaxed);
}

static inline void *churn_run(void *seed) {
    uint64_t rng = (uint64_t)(uintptr_t)seed * 7919 + 1;
    while (!atomic_load_explicit(&churn_stop, memory_order_relaxed))
        churn_step(&rng);
    return NULL;
}

static inline void churn_start(size_t threads) {
    CHECK(threads <= CHURN_MAX_THREADS, "%zu threads asked for", threads);
    for (size_t i = 0; i < threads; i++) {
        int err = pthread_create(&churn_threads[i], NULL, churn_run, (void *)(i + 1));
        CHECK(err == 0, "pthread_create: %s", strerror(err));
    }
}

static inline void churn_free_slots(void) {
    for (size_t i = 0; i < CHURN_SLOTS; i++)
        block_delete(atomic_exchange(&churn_slots[i], NULL));
}

static inline void churn_finish(size_t threads) {
    atomic_store(&churn_stop, true);
    for (size_t i = 0; i < threads; i++)
        CHECK(pthread_join(churn_threads[i], NULL) == 0, "pthread_join");
    churn_free_slots();
    CHECK(atomic_load(&churn_operations) > 0, "the background threads never ran");
}

#endif
