// fork while other threads fill and empty their magazines: in the child no block is handed out
// twice, though it inherits the memory of threads that were stopped in the middle of a flush.
#include "process.h"

#include <pthread.h>
#include <stdint.h>

enum { FORKS = 200, BYTES = 1024, CHURNED = 400, CHECKED = 1500, THREADS = 2 };

static volatile bool stop;

static void *churn(void *unused) {
    void *blocks[CHURNED];
    while (!stop) {
        for (int i = 0; i < CHURNED; i++)
            blocks[i] = malloc(BYTES);
        for (int i = 0; i < CHURNED; i++)
            free(blocks[i]);
    }
    return unused;
}

static pthread_barrier_t filled;
static uintptr_t *held[THREADS][CHECKED];

static void *fill_and_check(void *number) {
    uintptr_t mark = (uintptr_t)number << 32;
    uintptr_t **own = held[(uintptr_t)number];
    for (uintptr_t i = 0; i < CHECKED; i++) {
        own[i] = malloc(BYTES);
        CHECK(own[i] != NULL, "malloc(%d)", BYTES);
        *own[i] = mark + i;
    }
    pthread_barrier_wait(&filled);
    for (uintptr_t i = 0; i < CHECKED; i++)
        CHECK(*own[i] == mark + i, "block %zu has a second owner", (size_t)i);
    return NULL;
}

static void run_threads(pthread_t *ids, void *(*work)(void *)) {
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0, "pthread_create");
}

static void run_child(void) {
    watchdog(20); // fork clears the parent's watchdog
    pthread_t ids[THREADS];
    pthread_barrier_init(&filled, NULL, THREADS);
    run_threads(ids, fill_and_check); // they take over what the churning threads left
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    _exit(0);
}

int main(void) {
    world_begin(100);
    pthread_t ids[THREADS];
    run_threads(ids, churn);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0)
            run_child();
        CHECK_CHILD_OK(child, "fork during a flush");
    }
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
