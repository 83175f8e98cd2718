// Code that runs before the allocator's own constructor (.preinit_array, priority 101) allocates,
// and main and exit handlers use those blocks.
#include "pattern.h"

#include <pthread.h>

enum { BLOCKS = 1000 };

static block_t *from_preinit[BLOCKS], *from_constructor[BLOCKS], *from_thread[BLOCKS];

static void make(block_t **blocks) {
    uint64_t rng = 5;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = block_new(rng_size(&rng, i % 100 == 0 ? 3 << 20 : 3000), i);
    for (size_t i = 0; i < BLOCKS; i += 2) { // free and take again
        block_delete(blocks[i]);
        blocks[i] = block_new(rng_size(&rng, 3000), i);
    }
}

static void discard(block_t **blocks) {
    for (size_t i = 0; i < BLOCKS; i++) {
        block_check(blocks[i]);
        block_t *moved = realloc(blocks[i], blocks[i]->size * 2);
        CHECK(moved != NULL, "realloc of an early block");
        block_delete(moved);
    }
}

static void *run(void *unused) {
    (void)unused;
    make(from_thread);
    return NULL;
}

static void before_all_constructors(void) { make(from_preinit); }
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(void) = before_all_constructors;

__attribute__((constructor(101))) static void first_constructor(void) {
    make(from_constructor);
    pthread_t id;
    CHECK(pthread_create(&id, NULL, run, NULL) == 0, "pthread_create in a constructor");
    CHECK(pthread_join(id, NULL) == 0, "pthread_join");
}

__attribute__((destructor(101))) static void last_destructor(void) { discard(from_constructor); }

int main(void) {
    world_begin(60);
    discard(from_preinit);
    discard(from_thread);
    return 0;
}
