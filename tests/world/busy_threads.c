// A thousand live threads with 64 KiB of small blocks each: what they hold is little more than what they use.
// Each has pages of its own for each size, so their memory is sparse, and no huge page would fit it.
#include "process.h"

#include <pthread.h>
#include <stdint.h>

enum { THREADS = 1000, EACH = 64 << 10, STACK = 64 << 10, MOST_PERCENT = 230 };

static pthread_barrier_t all_here;

static void *work(void *number) {
    uint32_t x = (uint32_t)(uintptr_t)number * 2654435761u + 1;
    for (size_t sum = 0; sum < (size_t)EACH;) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        const size_t size = 16 + x % 1008;
        char *p = malloc(size);
        CHECK(p != NULL, "malloc");
        memset(p, 1, size);
        sum += size;
    }
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here); // never: the process ends before
    return number;
}

int main(void) {
    world_begin(60);
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK) == 0, "stack");
    CHECK(pthread_barrier_init(&all_here, NULL, THREADS + 1) == 0, "barrier");
    const size_t before = process_rss();
    for (uintptr_t i = 1; i <= THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, work, (void *)i) != 0)
            world_skip("so many threads cannot be had here");
    }
    pthread_barrier_wait(&all_here);
    const long held = (long)((process_rss() - before) >> 10), used = (long)THREADS * (EACH >> 10);
    world_say("%ld KiB held, %ld KiB used", held, used);
    CHECK(held >= used, "the blocks are not there");
    CHECK_OURS(held * 100 <= used * MOST_PERCENT, "%ld %% of what is used", held * 100 / used);
    return 0;
}
