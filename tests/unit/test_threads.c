/* Threads that come and go, and many threads: the memory that ended threads leave in magazines is bounded, and all
 * threads' magazines share a budget. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/slab.h"
#include "check.h"
#include "front/boundary.h"
#include "front/crowd.h"
#include "front/guarded.h"
#include "magazines.h"
#include "pool_stats.h"

/* ---- threads that only free ---- */

static void *free_few(void *blocks) {
    for (unsigned i = 0; i < 2; i++)
        hak_free(((void **)blocks)[i]);
    return hk_load_relaxed(&hk_tc)->thread;
}

static void *free_many(void *blocks) {
    for (unsigned i = 0; i < 64; i++)
        hak_free(((void **)blocks)[i]);
    return own_record();
}

static void *result_of(void *(*run)(void *), void *argument) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

/* A few frees give a thread no record. The C library frees blocks for a thread after all its destructors have run: a
 * record that the thread got then would never be released. */
static void only_frees(void) {
    void *blocks[64];
    for (unsigned i = 0; i < 64; i++)
        CHECK((blocks[i] = hak_malloc(64)) != NULL);
    CHECK(result_of(free_few, blocks) == NULL);
    for (unsigned i = 0; i < 2; i++)
        CHECK((blocks[i] = hak_malloc(64)) != NULL);
    CHECK(result_of(free_many, blocks) != NULL);
}

static _Atomic(pid_t) alive;
static void *do_nothing(void *unused) {
    atomic_store(&alive, gettid());
    return unused;
}

/* Threads that never allocate get no record, however many there are. They run on a stack of the program's own, which
 * the C library does not keep. */
static void never_allocate(void) {
    enum { STACK = 2 * 1024 * 1024, LIVES_OF_NOTHING = 40 };
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    CHECK(stack != MAP_FAILED && pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0);
    const unsigned before = hk_load_relaxed(&hk_heap_threads);
    for (unsigned i = 0; i < LIVES_OF_NOTHING; i++) {
        pthread_t thread;
        atomic_store(&alive, 0);
        CHECK(pthread_create(&thread, &attributes, do_nothing, NULL) == 0);
        /* the next thread reuses its stack */
        while (atomic_load(&alive) == 0 ||
               syscall(SYS_tgkill, getpid(), atomic_load(&alive), 0) == 0)
            usleep(100);
    }
    CHECK_EQ(hk_load_relaxed(&hk_heap_threads), before);
    munmap(stack, STACK);
}

/* ---- what ended threads leave in magazines ---- */

enum { CROWD = 16, LIVES = 12 };
static hk_thread_t *records[CROWD];
static pthread_barrier_t together;

static void *live_shortly(void *place) {
    for (unsigned i = 0; i < 100; i++)
        hak_free(hak_malloc(64));
    *(hk_thread_t **)place = own_record();
    pthread_barrier_wait(&together); /* each has a record of its own */
    return place;
}

static void live_as_many(unsigned count, void *(*live)(void *)) {
    pthread_t threads[CROWD];
    CHECK(pthread_barrier_init(&together, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, live, &records[i]) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void live_together(unsigned count) { live_as_many(count, live_shortly); }

static unsigned records_with_blocks(unsigned count) {
    unsigned warm = 0;
    for (unsigned i = 0; i < count; i++)
        warm += held(records[i], hk_class_of(64)) != 0;
    return warm;
}

static void *live_largely(void *place) {
    for (unsigned cls = hk_class_of(64); cls <= hk_class_of(2048); cls++)
        drive(cls);
    return live_shortly(place);
}

static void *live_much(void *place) {
    enum { KEPT = 240 };
    static _Thread_local void *kept[KEPT];
    for (unsigned i = 0; i < KEPT; i++)
        CHECK((kept[i] = hak_malloc(i % 2 != 0 ? 700 : 1200)) != NULL);
    for (unsigned i = 0; i < KEPT; i++)
        hak_free(kept[i]);
    return live_shortly(place);
}

/* Of the records of threads that leave much, only some keep it: all records together keep at most 2 MiB. */
static void bounded_together(void) {
    size_t kept = 0;
    unsigned warm = 0;
    live_as_many(CROWD, live_much);
    for (unsigned i = 0; i < CROWD; i++) {
        kept += hk_magazines_bytes(records[i]);
        warm += hk_magazines_bytes(records[i]) != 0;
    }
    dprintf(STDOUT_FILENO, "%u of %d records keep %zu bytes\n", warm, CROWD, kept);
    CHECK(kept <= 2 * HK_MIB);
    CHECK(HK_HOSTILE || (warm != 0 && warm < CROWD));
}

/* The first threads' blocks go back to the heap; once threads come and go, records keep a little, until a trim. */
static void left_behind(void *unused) {
    (void)unused;
    hak_free(hak_malloc(64)); /* first: gets this thread a record of its own */
    for (unsigned i = 0; i < LIVES; i++) {
        live_together(1);
        CHECK(records_with_blocks(1) == (i + 1 >= 8));
    }
    hk_trim();
    CHECK_EQ(records_with_blocks(1), 0);
    live_together(1);
    CHECK_EQ(records_with_blocks(1), 1);
    pthread_t large;
    CHECK(pthread_create(&large, NULL, live_largely, &records[0]) == 0);
    CHECK(pthread_join(large, NULL) == 0);
    CHECK_EQ(records_with_blocks(1), HK_HOSTILE); /* whose threads never hold much */
    for (unsigned i = 0; i < LIVES; i++)
        live_together(CROWD);
    CHECK(HK_HOSTILE || records_with_blocks(CROWD) == CROWD); /* all fit into the bound */
    for (unsigned i = 0; i < 2; i++) /* twice: blocks kept the first time are not counted again */
        bounded_together();
    hk_trim();
    CHECK_EQ(records_with_blocks(CROWD), 0);
    bounded_together();
}

/* ---- many threads ---- */

enum { THREADS = 64 };

/* Grows its magazines twice; the second time all threads are there. */
static void *live_among_many(void *most) {
    const unsigned from = hk_class_of(64), to = hk_class_of(16384);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned cls = from; cls <= to; cls++)
            drive(cls);
        pthread_barrier_wait(&together);
    }
    *(size_t *)most = pinned(own_record());
    pthread_barrier_wait(&together); /* else a thread that ends changes the others' part */
    return NULL;
}

/* With many threads a thread's magazines may hold its part of the shared budget, and one block of each class beyond
 * that; magazines that grew larger before shrink as the thread goes on. */
static void many(void *unused) {
    static pthread_t threads[THREADS];
    static size_t may[THREADS];
    (void)unused;
    CHECK(pthread_barrier_init(&together, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, live_among_many, &may[i]) == 0);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    const size_t part = hk_magazines_part();
    pthread_barrier_wait(&together);
    size_t one_each = 0, all = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        one_each += hk_classes[cls].size;
    CHECK(HK_HOSTILE || part < hk_magazines_budget());
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(may[i] <= part + one_each);
        all += may[i];
    }
    dprintf(STDOUT_FILENO, "%d threads: their magazines may hold %zu bytes, %zu each\n", THREADS,
            all, part);
}

static void free_only(void *unused) {
    (void)unused;
    only_frees();
    never_allocate();
}

int main(void) {
    check_passes(free_only, NULL);
    check_passes(left_behind, NULL);
    check_passes(many, NULL);
    return 0;
}
