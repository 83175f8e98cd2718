// Destructors of thread-specific data run when the thread's own cache may be gone already: they
// free, allocate, and set their keys again for as many rounds as the C library allows.
#include "pattern.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

// More keys than the C library keeps in the thread itself: it takes the second level from calloc
// and frees it after the last destructor.
enum { KEYS = 70, THREADS = 150 };

static pthread_key_t keys[KEYS];
static atomic_int destroyed, rearmed;

static void destroy(void *value) {
    block_t *block = value;
    size_t key = block->seed & 0xff, rounds = block->seed >> 8;
    block_delete(block);
    atomic_fetch_add(&destroyed, 1);
    uint64_t rng = key + 1;
    for (int i = 0; i < 20; i++)
        block_delete(block_new(rng_size(&rng, i == 7 ? 200000 : 2000), key));
    if (rounds == 0)
        return;
    atomic_fetch_add(&rearmed, 1);
    CHECK(pthread_setspecific(keys[key], block_new(100 + key, key | (rounds - 1) << 8)) == 0,
          "pthread_setspecific in a destructor");
}

// Even keys re-arm themselves until the last round, odd ones never.
static void *run(void *unused) {
    (void)unused;
    for (size_t k = 0; k < KEYS; k++) {
        uint64_t rounds = k % 2 == 0 ? PTHREAD_DESTRUCTOR_ITERATIONS - 1 : 0;
        CHECK(pthread_setspecific(keys[k], block_new(50 + k * 30, k | rounds << 8)) == 0,
              "pthread_setspecific");
    }
    return NULL;
}

// A thread whose very first use of the allocator is in a destructor.
static void first_use(void *value) { free(malloc((size_t)value)); }

static void *run_without_allocating(void *key) {
    pthread_setspecific(*(pthread_key_t *)key, (void *)100);
    return NULL;
}

int main(void) {
    world_begin(60);
    for (size_t k = 0; k < KEYS; k++)
        CHECK(pthread_key_create(&keys[k], destroy) == 0, "pthread_key_create");
    for (int i = 0; i < THREADS; i++) {
        pthread_t ids[2];
        for (int t = 0; t < 2; t++)
            CHECK(pthread_create(&ids[t], NULL, run, NULL) == 0, "pthread_create");
        for (int t = 0; t < 2; t++)
            CHECK(pthread_join(ids[t], NULL) == 0, "pthread_join");
    }
    int arms = THREADS * 2 * (KEYS / 2) * (PTHREAD_DESTRUCTOR_ITERATIONS - 1);
    CHECK(atomic_load(&rearmed) == arms, "re-armed %d times, expected %d", rearmed, arms);
    CHECK(atomic_load(&destroyed) == arms + THREADS * 2 * KEYS, "destroyed %d", destroyed);
    pthread_key_t lone;
    CHECK(pthread_key_create(&lone, first_use) == 0, "pthread_key_create");
    for (int i = 0; i < THREADS; i++) {
        pthread_t id;
        CHECK(pthread_create(&id, NULL, run_without_allocating, &lone) == 0, "pthread_create");
        CHECK(pthread_join(id, NULL) == 0, "pthread_join");
    }
    return 0;
}
