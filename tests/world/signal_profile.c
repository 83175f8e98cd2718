// signal_profile quiet|allocate: SIGPROF about a thousand times a second of CPU time while two
// threads allocate. A quiet handler must never be noticed. One that allocates is outside of the
// contract of malloc, but it may not deadlock (the watchdog would end the test) or crash.
#include "churn.h"
#include "process.h"

#include <signal.h>
#include <sys/time.h>

enum { THREADS = 2, SIGNALS = 200 };

static atomic_int handled;
static bool allocating;

static void on_signal(int number) {
    (void)number;
    int saved = errno;
    int count = atomic_fetch_add(&handled, 1);
    if (allocating) {
        char *block = malloc(count % 8 == 0 ? 200000 : (size_t)(count % 64) * 32 + 1);
        if (block != NULL)
            block[0] = 1;
        free(block);
    }
    errno = saved;
}

static void *churn_raw(void *seed) {
    uint64_t rng = (uintptr_t)seed;
    while (!atomic_load(&churn_stop)) {
        void *blocks[40];
        for (size_t i = 0; i < 40; i++)
            blocks[i] = malloc(rng_size(&rng, i == 0 ? 300000 : 2000));
        for (size_t i = 0; i < 40; i++)
            free(blocks[i]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    world_begin(30);
    CHECK(argc == 2, "usage: signal_profile quiet|allocate");
    allocating = strcmp(argv[1], "allocate") == 0;
    if (allocating && !world_on_hakmem())
        world_skip("only hakmem promises not to deadlock in a handler that allocates");
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGPROF, &action, NULL) == 0, "sigaction");
    pthread_t raw[THREADS];
    if (allocating)
        for (size_t i = 0; i < THREADS; i++)
            CHECK(pthread_create(&raw[i], NULL, churn_raw, (void *)(i + 1)) == 0, "pthread_create");
    else
        churn_start(THREADS);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0, "setitimer");
    while (atomic_load(&handled) < SIGNALS)
        usleep(1000);
    timer = (struct itimerval){{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0, "setitimer");
    if (!allocating) {
        churn_finish(THREADS);
        return 0;
    }
    atomic_store(&churn_stop, true);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(raw[i], NULL) == 0, "pthread_join");
    return 0;
}
