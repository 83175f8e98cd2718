// 1000 threads come and go; each frees what its predecessors left and leaves blocks itself. The
// live bytes stay constant, so the resident set must too.
#include "pattern.h"
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 20, THREADS = 50, AT_ONCE = 10, LEFT = 250, GONE = 2000 };

static _Atomic(block_t *) left_by[THREADS][LEFT];

static void *run(void *index) {
    size_t self = (size_t)index;
    uint64_t rng = self + 1;
    block_t *own[GONE];
    for (size_t i = 0; i < GONE; i++)
        own[i] = block_new(rng_size(&rng, i % 100 == 0 ? 100000 : 2000), i);
    for (size_t i = 0; i < LEFT; i++) {
        // From a thread of the last round, mostly dead by now, sometimes alive.
        size_t other = (self + i) % THREADS;
        block_delete(atomic_exchange(&left_by[other][i], block_new(rng_size(&rng, 2000), i)));
    }
    for (size_t i = 0; i < GONE; i++)
        block_delete(own[i]);
    return NULL;
}

static void run_round(void) {
    pthread_t ids[AT_ONCE];
    for (size_t done = 0; done < THREADS; done += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_create(&ids[i], NULL, run, (void *)(done + i)) == 0, "pthread_create");
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_join(ids[i], NULL) == 0, "pthread_join");
    }
}

int main(void) {
    world_begin(60);
    size_t early = 0;
    for (int round = 0; round < ROUNDS; round++) {
        run_round();
        if (round == 3)
            early = process_rss();
    }
    size_t late = process_rss();
    CHECK(late <= early + early / 4 + 12 * MIB, "RSS grew from %zu to %zu KiB in %d rounds",
          early >> 10, late >> 10, ROUNDS - 4);
    for (size_t t = 0; t < THREADS; t++)
        for (size_t i = 0; i < LEFT; i++)
            block_delete(left_by[t][i]);
    return 0;
}
