// fork while other threads allocate: the child allocates, frees what it inherited, starts a thread,
// forks again and leaves through exit(), or does so at once. The parent goes on undisturbed.
#include "churn.h"
#include "process.h"

enum { FORKS = 150, THREADS = 3, INHERITED = 300 };

static block_t *inherited[INHERITED];

static void work(uint64_t seed) {
    uint64_t rng = seed + 1;
    for (int i = 0; i < 200; i++)
        churn_step(&rng);
}

static void *thread_of_child(void *unused) {
    (void)unused;
    work(99);
    return NULL;
}

static void exit_handler(void) { block_delete(block_new(5000, 5)); }

static void run_child(uint64_t seed) {
    watchdog(20); // fork clears the parent's watchdog
    work(seed);
    for (size_t i = 0; i < INHERITED; i++)
        block_delete(inherited[i]);
    pthread_t id;
    CHECK(pthread_create(&id, NULL, thread_of_child, NULL) == 0, "pthread_create in the child");
    CHECK(pthread_join(id, NULL) == 0, "pthread_join in the child");
    if (seed % 4 == 0) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0, "fork in the child: %s", strerror(errno));
        if (grandchild == 0) {
            work(seed + 1);
            churn_free_slots();
            exit(0);
        }
        CHECK_CHILD_OK(grandchild, "grandchild");
    }
    churn_free_slots(); // blocks of threads that do not exist here
    exit(0);
}

int main(void) {
    world_begin(100);
    CHECK(atexit(exit_handler) == 0, "atexit");
    churn_start(THREADS);
    uint64_t rng = 3;
    for (uint64_t i = 0; i < FORKS; i++) {
        for (size_t b = 0; b < INHERITED; b++) {
            block_delete(inherited[b]);
            inherited[b] = block_new(rng_size(&rng, b % 50 == 0 ? 300000 : 2000), b);
        }
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0 && i % 2 == 0)
            exit(0); // what the other threads were about is nobody's fault
        if (child == 0)
            run_child(i);
        CHECK_CHILD_OK(child, "fork in a threaded program");
    }
    for (size_t b = 0; b < INHERITED; b++)
        block_delete(inherited[b]);
    churn_finish(THREADS);
    return 0;
}
