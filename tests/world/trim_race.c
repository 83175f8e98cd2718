// malloc_trim and mallinfo2 in two threads each, while others make whole superslabs come and go:
// live blocks keep their contents. (A trim once purged memory that was on its way to another
// owner.)
#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

enum { ROUNDS = 40000, BLOCKS = 6, BYTES = 1900000, STRIDE = 524288 };

static volatile bool stop;

static void *churn(void *seed) {
    for (int round = 0; round < ROUNDS; round++) {
        char *blocks[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(BYTES);
            CHECK(blocks[i] != NULL, "malloc(%d)", BYTES);
            for (size_t at = 0; at < BYTES; at += STRIDE)
                *(uintptr_t *)(blocks[i] + at) = (uintptr_t)(blocks[i] + at) ^ (uintptr_t)seed;
        }
        for (int i = 0; i < BLOCKS; i++) {
            for (size_t at = 0; at < BYTES; at += STRIDE)
                CHECK(*(uintptr_t *)(blocks[i] + at) ==
                          ((uintptr_t)(blocks[i] + at) ^ (uintptr_t)seed),
                      "round %d: byte %zu of a live block has changed", round, at);
            free(blocks[i]);
        }
    }
    return NULL;
}

static void *trim(void *unused) {
    while (!stop)
        malloc_trim(0);
    return unused;
}

static void *look(void *unused) {
    while (!stop)
        mallinfo2();
    return unused;
}

int main(void) {
    world_begin(60);
    static void *(*const work[])(void *) = {churn, churn, trim, trim, look};
    enum { THREADS = sizeof work / sizeof work[0], CHURNING = 2 };
    pthread_t ids[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, work[i], (void *)(i + 1)) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++) {
        stop = i >= CHURNING;
        pthread_join(ids[i], NULL);
    }
    return 0;
}
