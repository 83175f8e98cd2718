// With no memory left, and the keys of which the C library has room in each thread taken by the program, a thread's first
// operations are frees: they leave errno alone, as any free does, and so does the malloc that takes one of these blocks.
#include "check.h"

#include <pthread.h>

enum { KEYS = 40, BLOCKS = 8 };

static pthread_barrier_t barrier;
static void *blocks[BLOCKS];

static void *run(void *unused) {
    pthread_barrier_wait(&barrier); // it has all that a thread needs
    pthread_barrier_wait(&barrier); // and now there is no more
    for (int i = 0; i < BLOCKS; i++) {
        errno = ERANGE;
        free(blocks[i]);
        CHECK(errno == ERANGE, "the %dth free set errno to %d", i + 1, errno);
    }
    void *block = malloc(10);
    CHECK(block != NULL && errno == ERANGE, "malloc gave %p, and errno is %d", block, errno);
    free(block);
    return unused;
}

int main(void) {
    pthread_key_t key;
    pthread_t thread;
    for (int i = 0; i < KEYS; i++)
        CHECK(pthread_key_create(&key, NULL) == 0, "pthread_key_create");
    world_begin(60);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(10);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0, "pthread_barrier_init");
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&barrier);
    while (malloc(512) != NULL)
        continue;
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
}
