/* The trap: threads are pointed at it and back while they run, they start and end on the right side, and the blocks
 * that they hold are counted. */
#include <pthread.h>

#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/magazine.h"
#include "hakmem/hakmem.h"

enum { THREADS = 3, SIZE = 200 };

static void observe(bool on) {
    hk_store_relaxed(&hk_config.front_metrics, on);
    hk_front_apply();
}

static hk_tcache_t *cache_now(void) { return hk_load_relaxed(&hk_tc); }

static void use(void) {
    void *blocks[40];
    for (unsigned i = 0; i < 40; i++) {
        blocks[i] = hak_malloc(1 + 37 * i);
        CHECK(blocks[i] != NULL);
        memset(blocks[i], (int)i, 1 + 37 * i);
    }
    for (unsigned i = 0; i < 40; i++) {
        for (unsigned at = 0; at < 1 + 37 * i; at++)
            CHECK_EQ(((unsigned char *)blocks[i])[at], i);
        hak_free(blocks[i]);
    }
}

static const hk_tcache_t *trap_of(const hk_thread_t *thread) {
    const hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    return rest == NULL ? NULL : &rest->trap;
}

/* A thread that switches observing on or off changes sides at once, and keeps its record. */
static void own_thread(void) {
    use();
    hk_thread_t *thread = cache_now()->thread;
    CHECK(cache_now() == &thread->cache);
    observe(true);
    CHECK(cache_now() == trap_of(thread) && cache_now()->thread == thread);
    for (unsigned kind = 0; kind < HK_KIND_COUNT; kind++) {
        CHECK(hk_load_relaxed(&trap_of(thread)->top[kind]) == trap_of(thread)->limit[kind]);
        CHECK(*trap_of(thread)->limit[kind] == NULL);
    }
    use();
    CHECK(cache_now() == trap_of(thread));
    observe(false);
    CHECK(cache_now() == &thread->cache);
    use();
}

/* ---- other threads ---- */

static pthread_barrier_t barrier;
static bool expected; /* between barriers: whether threads are observed */

static void check_side(void) {
    const hk_thread_t *thread = cache_now()->thread;
    CHECK(cache_now() == (expected ? trap_of(thread) : &thread->cache));
}

static void *follow(void *unused) {
    use();
    check_side();
    for (unsigned round = 0; round < 4; round++) {
        pthread_barrier_wait(&barrier); /* main changes `expected` */
        pthread_barrier_wait(&barrier);
        check_side();
        use();
        check_side();
    }
    return unused;
}

/* Threads start on either side, and are pointed at the other one while they run. */
static void threads(bool at_start) {
    pthread_t ids[THREADS];
    observe(expected = at_start);
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, follow, NULL) == 0);
    for (unsigned round = 0; round < 4; round++) {
        pthread_barrier_wait(&barrier);
        observe(expected = !expected);
        pthread_barrier_wait(&barrier);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    CHECK(pthread_barrier_destroy(&barrier) == 0);
}

/* A record without a thread does not refer to any thread's pointer. */
static void check_orphan(hk_thread_t *thread, void *own) {
    CHECK(thread == own || thread->tc == NULL);
}

/* ---- past the end of a thread, and in a fork's child ---- */

/* The test runs in this round of destructors, the last one; one earlier under the thread sanitizer, whose state is gone
 * in the fourth. */
#ifdef __SANITIZE_THREAD__
enum { LAST_ROUND = 3, CHILD_HAS_THREADS = 0 }; /* it does not allow threads in a fork's child */
#else
enum { LAST_ROUND = 4, CHILD_HAS_THREADS = 1 };
#endif

static pthread_key_t late;

/* Runs after the allocator's destructor in each round; in the last, the thread has no record, and the shared one
 * serves. */
static void late_destructor(void *left) {
    uintptr_t rounds = (uintptr_t)left;
    if (rounds > 1) {
        pthread_setspecific(late, (void *)(rounds - 1));
        return;
    }
    CHECK(cache_now()->thread == NULL);
    use();
    CHECK(cache_now()->thread == NULL);
}

static void *end_late(void *unused) {
    use();
    CHECK(pthread_setspecific(late, (void *)LAST_ROUND) == 0);
    return unused;
}

static void ends(void) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, end_late, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
}

static void in_child(void *unused) {
    (void)unused;
    check_side();
    use();
    hk_threads_visit(check_orphan, cache_now()->thread);
    if (CHILD_HAS_THREADS)
        ends();
    expected = !expected;
    observe(expected);
    check_side();
    use();
}

static atomic_bool stop;

static void *busy(void *unused) {
    while (!atomic_load(&stop))
        use();
    return unused;
}

static void forks(void) {
    static child_t child;
    pthread_t id;
    if (is_emulated("forks of a process with threads"))
        return;
    CHECK(pthread_create(&id, NULL, busy, NULL) == 0);
    for (unsigned i = 0; i < 20; i++) {
        observe(expected = i % 2);
        child_run(&child, in_child, NULL);
        CHECK_TEXT(child.text, "");
        CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    }
    atomic_store(&stop, true);
    CHECK(pthread_join(id, NULL) == 0);
}

/* ---- the blocks that threads hold ---- */

static size_t held(unsigned cls) {
    size_t blocks[HK_CLASS_COUNT];
    hk_threads_held(blocks);
    return blocks[cls];
}

static void *hold(void *unused) {
    void *p = hak_malloc(SIZE), *q = hak_malloc(SIZE);
    hak_free(p);
    hak_free(q);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

/* hk_threads_held() counts the blocks in the magazines of all live threads; an ended thread's are gone from it. */
static void holdings(void) {
    const unsigned cls = hk_class_of(SIZE);
    pthread_t id;
    void *p = hak_malloc(SIZE);
    size_t before = held(cls);
    CHECK_EQ(before, hk_magazine_count(cache_now()->thread, cls));
    hak_free(p);
    CHECK_EQ(held(cls), before + 1);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&id, NULL, hold, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(held(cls) >= before + 3);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(id, NULL) == 0);
    CHECK_EQ(held(cls), before + 1); /* the thread's end gave its own back */
}

int main(void) {
    own_thread();
    CHECK(pthread_key_create(&late, late_destructor) == 0);
    holdings();
    for (unsigned i = 0; i < 6; i++) {
        threads(i % 2);
        hk_threads_visit(check_orphan, cache_now()->thread);
        ends();
        observe(i % 3 == 0);
        ends();
    }
    forks();
    return 0;
}
