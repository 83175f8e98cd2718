// A program with a clock_gettime of its own that takes a lock and allocates, as tools do that give a program another time:
// it never waits for itself, for the allocator reads the clock by none of the names that others may stand before.
#include "process.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int asked;

// Once for memory that goes back, once for a file.
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now) {
    pthread_mutex_lock(&lock);
    asked++;
    free(malloc(16 * MIB));
    FILE *file = fopen("/dev/null", "r");
    if (file != NULL)
        fclose(file);
    pthread_mutex_unlock(&lock);
    return (int)syscall(SYS_clock_gettime, clock, now);
}

enum { BLOCKS = 4000, ROUNDS = 4 };
static char *blocks[BLOCKS];

// The process grows, its larger blocks among huge pages, and becomes small again, in short steps.
static void grow_and_shrink(size_t size) {
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(size)) != NULL, "malloc");
        memset(blocks[i], 1, size);
    }
    char *large = malloc(64 * MIB);
    CHECK(large != NULL, "malloc");
    memset(large, 1, 64 * MIB);
    free(large);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void *beside(void *unused) {
    for (int round = 0; round < ROUNDS; round++)
        grow_and_shrink(3000 + (size_t)round * 5000);
    return unused;
}

int main(void) {
    struct timespec now;
    pthread_t thread;
    world_begin(60);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && asked == 1, "it is the C library's");
    beside(NULL); // with no other thread, then with one
    CHECK(pthread_create(&thread, NULL, beside, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    malloc_trim(0);
    CHECK_OURS(asked == 1, "the allocator asked %d times", asked - 1);
    return 0;
}
