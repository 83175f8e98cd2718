/* A watcher is told of every operation of every thread once, with the request's arguments, and not of its own. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "front/boundary.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"

/* What the watcher was told last, and how often; only this thread runs meanwhile. */
static struct {
    void *given, *taken;
    hk_told_t gave, took;
    unsigned given_times, taken_times;
} heard;
static atomic_uint given_in_all, taken_in_all, ends;

static void given(void **own, void *p, const hk_told_t *told) {
    heard.given = p;
    heard.gave = *told;
    heard.given_times++;
    hk_add_seq(&given_in_all, 1u);
    if (own != NULL)
        *own = p;
    hak_free(hak_malloc(24)); /* the watcher's own: it is not told of it */
}

static void taken(void **own, void *p, const hk_told_t *told) {
    (void)own;
    heard.taken = p;
    heard.took = *told;
    heard.taken_times++;
    hk_add_seq(&taken_in_all, 1u);
}

static void ended(void **own) {
    (void)own;
    hk_add_seq(&ends, 1u);
}

static const hk_watcher_t watcher = {given, taken, ended, NULL};

static void expect(unsigned given_times, unsigned taken_times) {
    CHECK(heard.given_times == given_times);
    CHECK(heard.taken_times == taken_times);
    heard.given_times = heard.taken_times = 0;
}

static void test_each_kind(void) {
    static const size_t sizes[] = {0, 1, 100, 5000, 100000, 3000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = hak_malloc(sizes[i]);
        CHECK(heard.given == p && heard.gave.n == sizes[i] && !heard.gave.resized);
        expect(1, 0);
        hak_free(p);
        CHECK(heard.taken == p && heard.took.n == HK_ANY_SIZE);
        expect(0, 1);
        p = hak_calloc(1, sizes[i]);
        CHECK(heard.given == p && heard.gave.n == sizes[i]);
        expect(1, 0);
        hak_free(p);
        expect(0, 1);
        p = hak_aligned_alloc(256, sizes[i]);
        CHECK(heard.given == p && heard.gave.n == sizes[i] && heard.gave.align == 256);
        expect(1, 0);
        hak_free(p);
        expect(0, 1);
    }
    hak_free(NULL);
    expect(0, 0);
}

static void test_realloc(void) {
    char *p = hak_malloc(100);
    expect(1, 0);
    static const size_t sizes[] = {104, 2000, 60000, 5000000, 9000000, 30};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *q = hak_realloc(p, sizes[i]);
        CHECK(heard.taken == p && heard.took.resized);
        CHECK(heard.given == q && heard.gave.resized && heard.gave.n == sizes[i]);
        expect(1, 1);
        p = q;
    }
    CHECK(hak_realloc(p, SIZE_MAX / 2) == NULL); /* told: p was taken, and given again */
    CHECK(heard.taken == p && heard.given == p && heard.gave.n >= 30);
    expect(1, 1);
    hak_free(p);
    expect(0, 1);
}

enum { BLOCKS = 1000 };

static _Thread_local bool at_work; /* false while the C library allocates for the thread */

static void *work(void *unused) {
    void *blocks[BLOCKS];
    at_work = true;
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(i);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    at_work = false;
    return unused;
}

static void count_given(void **own, void *p, const hk_told_t *told) {
    (void)own, (void)p, (void)told;
    hk_add_seq(&given_in_all, (unsigned)at_work);
}

static void count_taken(void **own, void *p, const hk_told_t *told) {
    (void)own, (void)p, (void)told;
    hk_add_seq(&taken_in_all, (unsigned)at_work);
}

/* All operations are told, also a thread's first one, for which it has no record yet. */
static void test_threads(void) {
    static const hk_watcher_t counter = {count_given, count_taken, ended, NULL};
    pthread_t threads[4];
    hk_watch(HK_WATCH_RECORD, &counter);
    hk_store_seq(&given_in_all, 0u);
    hk_store_seq(&taken_in_all, 0u);
    hk_store_seq(&ends, 0u);
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(hk_load_seq(&given_in_all) == 4 * BLOCKS);
    CHECK(hk_load_seq(&taken_in_all) == 4 * BLOCKS);
    CHECK(hk_load_seq(&ends) == 4);
    hk_watch(HK_WATCH_RECORD, &watcher);
}

static void test_child(void) {
    heard.given_times = 0;
    pid_t pid = fork();
    if (pid == 0) {
        void *p = hak_malloc(50);
        _exit(heard.given == p && heard.given_times == 1 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Without watchers nothing is told, and the thread uses its cache again. */
static void test_off(void) {
    hk_watch(HK_WATCH_RECORD, NULL);
    CHECK(!hk_watched());
    heard.given_times = heard.taken_times = 0;
    hak_free(hak_malloc(40));
    hak_free(hak_realloc(hak_malloc(40000), 90000));
    expect(0, 0);
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    CHECK(tc == &tc->thread->cache);
}

int main(void) {
    hk_watch(HK_WATCH_RECORD, &watcher);
    heard.given_times = heard.taken_times = 0;
    test_each_kind();
    test_realloc();
    test_threads();
    test_child();
    test_off();
    return 0;
}
