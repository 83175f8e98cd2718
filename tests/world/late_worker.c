// The allocator's thread that ends a process, once all others than its own have ended, does not take one that the system has not
// started yet for one of these: here starting it takes longer than two looks, and a thread of the program's waits for it.
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>

enum { TWO_LOOKS_S = 11, BLOCKS = 64 };

static atomic_bool begun, slow;
static bool was_slow, done;
static pthread_t of_main;

// Where this and pthread_create are not both the C library's, the allocator starts its thread by this.
int thrd_create(thrd_t *thread, thrd_start_t run, void *argument) {
    int (*create)(thrd_t *, thrd_start_t, void *);
    void *found = dlsym(RTLD_NEXT, "thrd_create");
    memcpy(&create, &found, sizeof found);
    if (atomic_exchange(&slow, false)) {
        sleep(TWO_LOOKS_S);
        was_slow = true;
    }
    return create(thread, run, argument);
}

static void *work(void *unused) {
    (void)unused;
    free(malloc(1000)); // a record of its own, not the one that main leaves
    atomic_store(&begun, true);
    pthread_join(of_main, NULL);
    atomic_store(&slow, true);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(memset(malloc(MIB), 1, MIB) != NULL, "malloc");
    CHECK(was_slow, "no thread has been started");
    done = true;
    exit(0);
}

static void check_done(void) { CHECK(done, "the process ends while a thread works"); }

int main(void) {
    pthread_t thread;
    world_begin(30);
    of_main = pthread_self();
    CHECK(atexit(check_done) == 0, "atexit");
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    while (!atomic_load(&begun))
        usleep(1000);
    pthread_exit(NULL);
}
