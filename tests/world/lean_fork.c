// lean_fork once|torture: fork while memory is being given back. Parent and child go on, all blocks
// keep their contents, and in the child memory comes back as well.
#include "churn.h"
#include "lean.h"

enum { PEAK = 48 << 20, PARENTS = 3, FORKS = 40, THREADS = 2 };

static void child_uses_memory(heap_t *heap) {
    watchdog(60); // fork clears the parent's watchdog
    heap_check(heap);
    CHECK(tasks_now().threads == 1, "%u threads in the child", tasks_now().threads);
    heap_free(heap);
    size_t before = kept_bytes();
    heap_t own = heap_grow(PEAK, 11);
    size_t grown = kept_bytes();
    CHECK(grown > before, "the child has used no memory");
    heap_thin(&own, 5, 3);
    await_kept(grown - (grown - before) / 2, "in the child");
    heap_check(&own);
    heap_free(&own);
    exit(0);
}

// Just when the purger starts to work, or a little later.
static void once(void) {
    have_company();
    for (int i = 0; i < PARENTS; i++) {
        heap_t heap = heap_grow(PEAK, 5);
        await_purger(true);
        heap_thin(&heap, 5, 3);
        sleep_ms(100 + 3 * i);
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0)
            child_uses_memory(&heap);
        heap_check(&heap);
        heap_t again = heap_grow(PEAK / 2, 7);
        heap_check(&heap);
        CHECK_CHILD_OK(child, "fork during a purge");
        heap_free(&again);
        heap_free(&heap);
    }
}

static void *grow_and_thin(void *unused) {
    uint64_t seed = 1;
    while (!atomic_load(&churn_stop)) {
        heap_t heap = heap_grow(12 << 20, ++seed);
        heap_thin(&heap, 10, seed);
        heap_check(&heap);
        heap_free(&heap);
    }
    return unused;
}

static void child_of_torture(uint64_t seed) {
    watchdog(60);
    uint64_t rng = seed + 1;
    for (int i = 0; i < 300; i++)
        churn_step(&rng);
    if (seed % 10 == 0) { // large enough for a purger of its own, once it has threads
        heap_t heap = heap_grow(12 << 20, seed);
        CHECK(tasks_now().purger == 0, "a thread has been started in a child");
        have_company();
        free(malloc(3 * MIB));
        await_purger(true);
        heap_thin(&heap, 10, seed);
        heap_check(&heap);
        heap_free(&heap);
    }
    churn_free_slots();
    if (seed % 2 == 0)
        exit(0);
    _exit(0);
}

static void torture(void) {
    pthread_t thread;
    churn_start(THREADS);
    CHECK(pthread_create(&thread, NULL, grow_and_thin, NULL) == 0, "pthread_create");
    await_purger(true);
    for (uint64_t i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0)
            child_of_torture(i);
        CHECK_CHILD_OK(child, "fork while others purge and free");
    }
    atomic_store(&churn_stop, true);
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    churn_finish(THREADS);
}

int main(int argc, char **argv) {
    world_begin(110);
    CHECK(argc == 2, "usage: lean_fork once|torture");
    if (strcmp(argv[1], "torture") == 0)
        torture();
    else
        once();
    return 0;
}
