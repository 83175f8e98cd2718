// Three thousand live threads with a few blocks each need at most 1.25 times the C library's memory.
#include "promise.h"

static pthread_barrier_t all_here;

static void *work(void *unused) {
    for (size_t i = 0; i < 6; i++) {
        size_t n = (size_t)24 << i; // 24 to 768 bytes
        memset(malloc(n), 1, n);
        free(memset(malloc(n), 1, n));
    }
    pthread_barrier_wait(&all_here);
    pthread_barrier_wait(&all_here);
    return unused;
}

static size_t memory_of(unsigned count) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * KIB);
    pthread_barrier_init(&all_here, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        NEED((errno = pthread_create(&thread, &small, work, NULL)) == 0, "pthread_create");
    }
    pthread_barrier_wait(&all_here);
    return resident();
}

// Of several processes: which threads run at once differs, and can only add to what there must be.
static long least(again_t how) {
    long best = again(how);
    for (int i = 0; i < 5; i++) {
        long next_one = again(how);
        best = next_one < best ? next_one : best;
    }
    return best;
}

int main(int argc, char **argv) {
    if (begin(argc, argv) != NULL)
        answer(memory_of(3000));
    long libc = least((again_t){.stage = "threads", .bare = true});
    long ours = least((again_t){.stage = "threads"});
    NEED(libc > 0, "3000 threads on the C library");
    PROMISE(ours > 0, "the threads did not all live");
    PROMISE(ours * 100 <= libc * 125, "resident %ld KiB, %.2f times the C library's %ld KiB",
            ours / 1024, (double)ours / (double)libc, libc / 1024);
    return 0;
}
