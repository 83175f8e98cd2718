// lean_idle_owner another|sleeps|exits|realloc: one thread allocates and sleeps, another frees: the
// memory comes back although its owner does nothing. So does what threads have in their caches when
// they sleep, or end, and what realloc cuts off.
#include "lean.h"

enum { BYTES = 128 << 20, HUGE_BYTES = 60 << 20 };
enum { THREADS = 32, PER_SIZE = 128 << 10, STEP = 512 };
enum { SLEEPERS = 16, EACH_BYTES = 16 << 20 };
enum { QUIET_MS = 1600 }; // the purger has gone to sleep by then, if it ever does

static heap_t heap;
static pthread_barrier_t barrier;

static void *allocate_and_sleep(void *unused) {
    heap = heap_grow(BYTES, 3);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); // until the memory has come back
    return unused;
}

static void another_frees(void) {
    pthread_t owner;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0, "pthread_barrier_init");
    size_t before = kept_bytes();
    CHECK(pthread_create(&owner, NULL, allocate_and_sleep, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&barrier);
    size_t grown = kept_bytes() - before;
    heap_free(&heap);
    await_kept(before + grown / 10, "freed by another thread");
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(owner, NULL) == 0, "pthread_join");
}

// In random order: what a thread's cache keeps then lies anywhere.
static void *use_and_sleep(void *unused) {
    uint64_t seed = 5;
    heap_t own = heap_grow(EACH_BYTES, 4);
    for (size_t i = own.count; i-- > 1;) {
        const size_t j = rng_below(&seed, i + 1);
        block_t *block = own.blocks[i];
        own.blocks[i] = own.blocks[j];
        own.blocks[j] = block;
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); // the peak has been measured
    heap_free(&own);
    pthread_barrier_wait(&barrier); // until the memory has come back
    own = heap_grow(EACH_BYTES / 8, 6);
    heap_check(&own);
    heap_free(&own);
    return unused;
}

static void all_sleep(void) {
    pthread_t threads[SLEEPERS];
    CHECK(pthread_barrier_init(&barrier, NULL, SLEEPERS + 1) == 0, "pthread_barrier_init");
    size_t before = kept_bytes();
    for (int i = 0; i < SLEEPERS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_and_sleep, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&barrier);
    size_t grown = kept_bytes() - before;
    pthread_barrier_wait(&barrier);
    await_kept(before + grown / 10, "in the caches of threads that sleep");
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < SLEEPERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
}

// Of each size as much as a thread's cache keeps.
static void *fill_caches(void *unused) {
    static __thread char *blocks[PER_SIZE / STEP];
    for (size_t n = STEP; n <= 64 * STEP; n += STEP)
        for (int round = 0; round < 12; round++) {
            for (size_t i = 0; i < PER_SIZE / n; i++)
                memset(blocks[i] = malloc(n), 1, n);
            for (size_t i = 0; i < PER_SIZE / n; i++)
                free(blocks[i]);
        }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

// The threads end when the purger has seen all that was freed before.
static void threads_end(void) {
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0, "pthread_barrier_init");
    size_t before = kept_bytes();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, fill_caches, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&barrier);
    sleep_ms(QUIET_MS);
    size_t cached = kept_bytes() - before;
    CHECK_OURS(cached > 16 * MIB, "%zu KiB in caches", cached >> 10);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    await_kept(before + cached / 2, "threads have ended");
}

static void realloc_cuts_off(void) {
    size_t before = kept_bytes();
    char *block = malloc(HUGE_BYTES);
    CHECK(block != NULL, "malloc");
    memset(block, 1, HUGE_BYTES);
    sleep_ms(QUIET_MS);
    block = realloc(block, MIB * 2);
    CHECK(block != NULL && block[0] == 1 && block[2 * MIB - 1] == 1, "realloc");
    await_kept(before + 8 * MIB, "cut off by realloc");
    free(block);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"another", another_frees},
                 {"sleeps", all_sleep},
                 {"exits", threads_end},
                 {"realloc", realloc_cuts_off}};
    world_begin(100);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(false, "usage: lean_idle_owner another|sleeps|exits|realloc");
}
