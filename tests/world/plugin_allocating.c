// The library that dlopen_plugin loads: its constructor and destructor allocate, free and start a
// thread; its thread-local data lives in memory that the loader takes from malloc.
#include "pattern.h"

#include <pthread.h>

enum { BLOCKS = 200 };

block_t **plugin_blocks(void);

static block_t *blocks[BLOCKS];
static _Thread_local char lazily_allocated[5000];

static void *run(void *unused) {
    (void)unused;
    memset(lazily_allocated, 1, sizeof lazily_allocated);
    block_delete(block_new(4000, 9));
    return NULL;
}

static void run_thread(void) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, run, NULL) == 0, "pthread_create");
    CHECK(pthread_join(id, NULL) == 0, "pthread_join");
}

__attribute__((constructor)) static void load(void) {
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = block_new(i * i, i);
    run_thread();
}

__attribute__((destructor)) static void unload(void) {
    run_thread();
    for (size_t i = 0; i < BLOCKS; i++)
        block_delete(blocks[i]);
}

block_t **plugin_blocks(void) {
    memset(lazily_allocated, 2, sizeof lazily_allocated);
    return blocks;
}
