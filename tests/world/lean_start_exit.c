// lean_start_exit: processes that start many threads while the purger starts, and that end in every
// way while it works.
#include "lean.h"

enum { PROCESSES = 24, STARTERS = 3, THREADS_EACH = 60, BLOCKS = 64 };

static pthread_barrier_t barrier;

static void *short_life(void *seed) {
    uint64_t rng = (uint64_t)(uintptr_t)seed + 1;
    block_t *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = block_new(rng_size(&rng, 20000), rng);
    for (int i = 0; i < BLOCKS; i++)
        block_delete(blocks[i]);
    return NULL;
}

static void *starter(void *seed) {
    pthread_barrier_wait(&barrier);
    for (uintptr_t i = 0; i < THREADS_EACH; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, short_life, (void *)((uintptr_t)seed + i)) == 0,
              "pthread_create");
        if (i % 3 == 0)
            pthread_detach(thread);
        else
            CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    }
    return NULL;
}

static void allocate_at_exit(void) {
    heap_t heap = heap_grow(MIB, 3);
    heap_check(&heap);
    heap_free(&heap);
}

static void run(unsigned way) {
    pthread_t starters[STARTERS];
    watchdog(30);
    CHECK(atexit(allocate_at_exit) == 0, "atexit");
    CHECK(pthread_barrier_init(&barrier, NULL, STARTERS + 1) == 0, "pthread_barrier_init");
    for (uintptr_t i = 0; i < STARTERS; i++)
        CHECK(pthread_create(&starters[i], NULL, starter, (void *)(i * 1000)) == 0,
              "pthread_create");
    pthread_barrier_wait(&barrier);
    heap_t heap = heap_grow(12 << 20, way + 1); // the purger starts meanwhile
    heap_thin(&heap, 10, way + 1);
    for (int i = 0; way % 2 != 0 && i < STARTERS; i++)
        pthread_join(starters[i], NULL);
    heap_check(&heap);
    if (way % 8 >= 4)
        sleep_ms(95 + way); // it works
    switch (way % 4) {
    case 0:
        exit(0);
    case 1:
        _exit(0);
    case 2:
        heap_free(&heap);
        exit(0);
    default:
        heap_free(&heap);
        quick_exit(0);
    }
}

int main(void) {
    world_begin(100);
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0)
            run(i);
        CHECK_CHILD_OK(child, "starts, purges and ends");
    }
    return 0;
}
