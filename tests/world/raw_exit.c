// Threads that leave by the system's call alone, past all destructors. The stacks of most are unmapped; others start on the rest.
// An option changes that all threads go by.
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { THREADS = 300, LATER = 4, STEPS = 1000 };
#define STACK (16 * MIB)

static atomic_bool done;

static void *leave(void *unused) {
    free(malloc(100));
    syscall(SYS_exit, 0);
    return unused;
}

static void *work(void *unused) {
    char *blocks[LATER] = {NULL};
    for (unsigned i = 0; !atomic_load(&done) || i < STEPS; i++) {
        char **block = &blocks[i % LATER];
        CHECK(*block == NULL || **block == (char)(uintptr_t)blocks,
              "a block is not its owner's alone");
        free(*block);
        CHECK((*block = malloc(100)) != NULL, "malloc");
        **block = (char)(uintptr_t)blocks;
    }
    return unused;
}

static void start(pthread_t *threads, int count, void *(*run)(void *)) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0, "pthread_attr_init");
    CHECK(pthread_attr_setstacksize(&attributes, STACK) == 0, "pthread_attr_setstacksize");
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], &attributes, run, NULL) == 0, "pthread_create");
}

static void join(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
}

int main(void) {
    static pthread_t threads[THREADS], later[LATER];
    world_begin(30);
    int (*ctl)(const char *, const char *, char *, size_t);
    WORLD_FIND(ctl, "hak_ctl");
    if (ctl == NULL)
        world_skip("no hak_ctl: this is not hakmem");
    start(threads, THREADS, leave);
    join(threads, THREADS);
    start(later, LATER, work);
    for (int i = 0; i < 10; i++) {
        CHECK(ctl("HAKMEM_TINY_FRONT_METRICS", i % 2 == 0 ? "1" : "0", NULL, 0) == 0, "hak_ctl");
        usleep(1000);
    }
    atomic_store(&done, true);
    join(later, LATER);
    return 0;
}
