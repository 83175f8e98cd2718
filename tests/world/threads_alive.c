// 300 threads alive at the same time, each with a cache of its own, freeing their neighbours'
// blocks; then all of them end at once.
#include "pattern.h"

#include <pthread.h>

enum { THREADS = 300, BLOCKS = 200, ROUNDS = 5 };

static block_t *blocks[THREADS][BLOCKS];
static pthread_barrier_t barrier;

static void *run(void *index) {
    size_t self = (size_t)index;
    uint64_t rng = self + 1;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[self][i] = block_new(rng_size(&rng, 3000), i);
        pthread_barrier_wait(&barrier);
        size_t victim = (self + round * 7 + 1) % THREADS;
        for (size_t i = 0; i < BLOCKS; i++)
            block_delete(blocks[victim][i]);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    world_begin(60);
    pthread_t ids[THREADS];
    pthread_attr_t small_stacks;
    pthread_attr_init(&small_stacks);
    pthread_attr_setstacksize(&small_stacks, 256 << 10);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        int err = pthread_create(&ids[i], &small_stacks, run, (void *)i);
        CHECK(err == 0, "pthread_create number %zu: %s", i, strerror(err));
    }
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0, "pthread_join");
    return 0;
}
