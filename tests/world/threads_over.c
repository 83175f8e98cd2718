// A thread that never allocates ends with a larger stack than the C library keeps of others: it frees what they had, one after
// the other, past all of its destructors. It must not count as a thread from then on, of which something is left.
#include "process.h"

#include <pthread.h>
#include <sys/stat.h>

enum { THREADS = 600 };

static pthread_barrier_t barrier;

static void *meet(void *unused) {
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *end_at_once(void *unused) { return unused; }

static void start(void *(*run)(void *), size_t stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0, "pthread_attr_init");
    CHECK(pthread_attr_setstacksize(&attributes, stack) == 0, "pthread_attr_setstacksize");
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0, "detached");
    int problem = pthread_create(&thread, &attributes, run, NULL);
    CHECK(problem == 0, "pthread_create: %s", strerror(problem));
}

static void wait_for_all(void) {
    struct stat tasks = {.st_nlink = 4};
    for (; tasks.st_nlink > 3; usleep(1000)) // itself, where it lies, and a thread
        CHECK(stat("/proc/self/task", &tasks) == 0, "/proc/self/task: %s", strerror(errno));
}

int main(void) {
    world_begin(100);
    int (*ctl)(const char *, const char *, char *, size_t);
    WORLD_FIND(ctl, "hak_ctl");
    if (ctl == NULL)
        world_skip("no hak_ctl: this is not hakmem");
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0, "pthread_barrier_init");
    for (int i = 0; i < THREADS; i++)
        start(meet, 64 << 10);
    pthread_barrier_wait(&barrier);
    wait_for_all();
    for (size_t mib = 48; mib <= 96; mib *= 2) { // its own stack goes with the next one
        start(end_at_once, mib << 20);
        wait_for_all();
    }
    CHECK(ctl("HAKMEM_TINY_FRONT_METRICS", "1", NULL, 0) == 0, "hak_ctl");
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i));
    return 0;
}
