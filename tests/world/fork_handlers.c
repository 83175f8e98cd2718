// fork_handlers early|late: pthread_atfork handlers that allocate and free, registered before every
// library's constructor (.preinit_array), so that they run while the allocator holds what it locks
// for fork, or registered by main, so that they run around that.
#include "churn.h"
#include "process.h"

#include <malloc.h>

enum { FORKS = 60, THREADS = 2 };

static block_t *kept;
static int calls[3];

static void allocate_and_free(void) {
    uint64_t rng = 1;
    block_delete(kept);
    for (int i = 0; i < 100; i++)
        block_delete(block_new(rng_size(&rng, i % 20 == 0 ? 400000 : 3000), (uint64_t)i));
    kept = block_new(1064, 1);
    mallinfo2(); // whatever it says then: it comes back
    malloc_trim(0);
}

static void prepare(void) { calls[0]++, allocate_and_free(); }
static void parent(void) { calls[1]++, allocate_and_free(); }
static void child(void) { calls[2]++, allocate_and_free(); }

static void register_early(int argc, char **argv, char **envp) {
    (void)envp;
    if (argc == 2 && strcmp(argv[1], "early") == 0)
        pthread_atfork(prepare, parent, child);
}
__attribute__((section(".preinit_array"),
               used)) static void (*const preinit)(int, char **, char **) = register_early;

int main(int argc, char **argv) {
    world_begin(20);
    CHECK(argc == 2, "usage: fork_handlers early|late");
    if (strcmp(argv[1], "late") == 0)
        CHECK(pthread_atfork(prepare, parent, child) == 0, "pthread_atfork");
    churn_start(THREADS);
    for (int i = 1; i <= FORKS; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            watchdog(20);
            CHECK(calls[0] == i && calls[2] == 1, "handlers: %d %d", calls[0], calls[2]);
            churn_free_slots();
            exit(0);
        }
        CHECK_CHILD_OK(pid, "fork with handlers that allocate");
        CHECK(calls[1] == i, "the parent's handler ran %d times", calls[1]);
    }
    churn_finish(THREADS);
    return 0;
}
