/* The crowd: with many threads, those that do little share slabs, their freed blocks wait on shelves,
 * and the free blocks that ended threads leave serve the other threads. */
#include <pthread.h>
#include <unistd.h>

#include "backend/slab.h"
#include "check.h"
#include "front/alone.h"
#include "front/boundary.h"
#include "front/thread_own.h"
#include "pool_stats.h"
#include "shelves.h"

static pthread_barrier_t together;

/* hk_crowd() must return a heap whose lock is free, as long as there is one, and stay with the
 * thread's last one. */
static void crowds(void *unused) {
    (void)unused;
    hak_free(hak_malloc(64));
    hk_thread_t *thread = own_record();
    CHECK(hk_crowd(thread) == &hk_crowds[0]);
    for (unsigned i = 0; i < HK_CROWDS - 1; i++) {
        hk_store_relaxed(&hk_crowds[i].lock.taken, 1u);
        CHECK(hk_crowd(thread) == &hk_crowds[i + 1]);
    }
    hk_store_relaxed(&hk_crowds[0].lock.taken, 0u);
    CHECK(hk_crowd(thread) == &hk_crowds[HK_CROWDS - 1]); /* its last one is free */
    hk_store_relaxed(&hk_crowds[HK_CROWDS - 1].lock.taken, 1u);
    CHECK(hk_crowd(thread) == &hk_crowds[0]);
    hk_store_relaxed(&hk_crowds[0].lock.taken, 1u);
    const hk_heap_t *any = hk_crowd(thread);
    CHECK(any >= hk_crowds && any < hk_crowds + HK_CROWDS);
}

/* ---- shelves ---- */

static unsigned give_all(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    unsigned to_slabs = 0;
    for (unsigned i = 0; i < n; i++)
        to_slabs += hk_crowd_give(thread, cls, blocks[i]);
    return to_slabs;
}

/* Blocks that a crowd's thread frees stay on the shelf, up to MOST, and serve the next allocations
 * without a refill. All others go to their slabs: beyond MOST, large ones, those of a sparse class,
 * and all once hk_crowds_clear() is called. */
static void shelves(void *unused) {
    enum { N = 100, MOST = HK_HOSTILE ? 2 : 31 };
    static void *blocks[N];
    (void)unused;
    hk_thread_t *thread = of_one_processor();
    const unsigned cls = hk_class_of(64), large = hk_class_of(5000);
    take_all(thread, cls, blocks, N);
    const unsigned before = on_shelves(cls);
    CHECK(before <= MOST);
    const unsigned to_slabs = give_all(thread, cls, blocks, N), there = on_shelves(cls);
    CHECK(there != 0 && there <= MOST && there + to_slabs == N + before);
    const uint64_t refills = hk_heap_counted(HK_HEAP_COUNT_refills);
    take_all(thread, cls, blocks, there);
    CHECK_EQ(hk_heap_counted(HK_HEAP_COUNT_refills), refills);
    CHECK_EQ(on_shelves(cls), 0);
    CHECK_EQ(give_all(thread, cls, blocks, there), 0);
    hk_crowds_clear();
    CHECK_EQ(on_shelves(cls), 0);
    take_all(thread, large, blocks, 3);
    CHECK_EQ(give_all(thread, large, blocks, 3), 3);
    CHECK_EQ(on_shelves(large), 0);
    take_all(thread, cls, blocks, N);
    CHECK_EQ(give_all(thread, cls, blocks + 1, 1), 0);
    const unsigned lay = on_shelves(cls);
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)1 << cls);
    CHECK_EQ(give_all(thread, cls, blocks, 1), 1 + lay);
    CHECK_EQ(give_all(thread, cls, blocks + 2, N - 2), N - 2);
    CHECK_EQ(on_shelves(cls), 0);
}

/* hk_crowd_pop() and hk_crowd_push() serve a thread without entering its record. They must refuse
 * threads outside the crowd, large blocks, an empty shelf and a full one. */
static void at_hand(void *unused) {
    static void *blocks[2];
    (void)unused;
    hk_thread_t *thread = of_one_processor();
    const unsigned cls = hk_class_of(64);
    CHECK(hk_crowd_pop(64) == NULL); /* the thread is not of the crowd */
    void *p = hak_malloc(64);
    CHECK(!hk_crowd_push(p));
    hk_thread_flush(thread, true);
    hk_magazines_reset(thread);
    thread->magazines[cls].crowd = true;
    hk_crowds_clear();
    CHECK(hk_crowd_pop(64) == NULL); /* the shelf is empty */
    CHECK(!hk_crowd_push(p));        /* and has no room before the first visit */
    hk_crowd_give(thread, cls, crowd_block(thread, cls));
    while (hk_crowd_pop(64) != NULL) /* leaks these blocks, in this child */
        continue;
    hk_store_relaxed(&hk_heap_threads, HK_MANY_THREADS + 1u);
    hk_alone_look_locked();
    CHECK(hk_gate_enter(thread)); /* as if in a signal handler that interrupted the boundary */
    hak_free(p);
    CHECK_EQ(on_shelves(cls), 1);
    CHECK(hak_malloc(64) == p && on_shelves(cls) == 0);
    hk_gate_leave(thread);
    while (hk_crowd_push(p)) /* puts one block there many times, in this child only */
        continue;
    CHECK_EQ(on_shelves(cls), HK_HOSTILE ? 2 : 31);
    while (hk_crowd_pop(64) != NULL)
        continue;
    CHECK_EQ(on_shelves(cls), 0);
    take_all(thread, cls, blocks, 2);
    CHECK(!hk_crowd_push(NULL) && !hk_crowd_push(blocks) && hk_crowd_pop(SIZE_MAX) == NULL);
    CHECK(hk_crowd_pop(HK_MID_MAX) == NULL && hk_crowd_pop(HK_MID_MAX + 1) == NULL);
}

/* The shelves are emptied once no more than three quarters of HK_MANY_THREADS are left, and not again
 * until threads have been many once more. */
static void of_few(void *unused) {
    enum { CLEARLY = HK_MANY_THREADS * 3 / 4 };
    (void)unused;
    const unsigned cls = hk_class_of(64);
    void *p = crowd_block(of_one_processor(), cls);
    hk_crowd_give(own_record(), cls, p);
    const unsigned there = on_shelves(cls);
    CHECK(there != 0);
    hk_crowds_clear_of_few(CLEARLY + 1);
    CHECK_EQ(on_shelves(cls), there);
    hk_crowds_clear_of_few(CLEARLY);
    CHECK_EQ(on_shelves(cls), 0);
    hk_crowd_give(own_record(), cls, crowd_block(own_record(), cls));
    hk_crowds_clear_of_few(CLEARLY);
    CHECK_EQ(on_shelves(cls), there);
    hk_crowds_gather_locked(false);
    hk_crowds_gather_locked(true);
    hk_crowds_clear_of_few(CLEARLY);
    CHECK_EQ(on_shelves(cls), 0);
}

/* ---- many threads that come and go ---- */

/* Stores whether the thread has slabs of its own, that is, is not of the crowd, while all threads of
 * alone_of() live. On a record that has seen several threads' ends, magazines are kept as found. */
static void *live_in_turn(void *alone) {
    const unsigned cls = hk_class_of(64);
    hak_free(hak_malloc(64));
    pthread_barrier_wait(&together);
    if (!hk_thread_comes_and_goes(own_record()) || hk_threads_are_very_many()) {
        hk_thread_flush(own_record(), true);
        hk_magazines_reset(own_record());
    }
    hak_free(hak_malloc(64));
    *(bool *)alone = !own_record()->magazines[cls].crowd;
    pthread_barrier_wait(&together);
    return NULL;
}

/* Starts `count` threads together. Returns how many of them have slabs of their own: none, unless
 * several threads have had their records before and threads are not very many. */
static unsigned alone_of(unsigned count) {
    enum { MOST = 128 };
    static bool alone[MOST];
    pthread_t threads[MOST];
    unsigned n = 0;
    CHECK(pthread_barrier_init(&together, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, live_in_turn, &alone[i]) == 0);
    for (unsigned i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        n += alone[i];
    }
    return n;
}

static void in_turn(void *unused) {
    enum { MANY = 48, VERY = 128 };
    (void)unused;
    for (unsigned lives = 0; lives < 8; lives++)
        CHECK_EQ(alone_of(MANY), 0);
    CHECK_EQ(alone_of(MANY), HK_HOSTILE ? 0 : MANY);
    CHECK_EQ(alone_of(VERY), 0);
}

/* ---- threads become few again ---- */

static void count_as(unsigned threads) {
    hk_store_relaxed(&hk_heap_threads, threads);
    hk_alone_look_locked();
}

static void use(unsigned times, size_t bytes) {
    for (unsigned i = 0; i < times; i++)
        hak_free(hak_malloc(bytes));
}

/* When threads are few again, a thread of the crowd must get slabs and a full-sized magazine of its
 * own. */
static void few_again(void *unused) {
    (void)unused;
    hk_thread_t *thread = of_one_processor();
    const unsigned cls = hk_class_of(2000);
    const hk_magazine_t *mag = &thread->magazines[cls];
    count_as(HK_MANY_THREADS + 1);
    use(10, 2000);
    CHECK(mag->crowd && mag->capacity == 0);
    hk_crowds_clear();
    hk_crowds_gather_locked(false);
    count_as(1);
    drive(cls);
    CHECK(!mag->crowd && mag->capacity == hk_classes[cls].magazine);
    void *p = hak_malloc(2000);
    CHECK(hk_load_relaxed(&hk_slab_of(p)->owner) == &thread->heap);
}

/* A thread that ended by the exit system call alone is noticed later, when plans are set. If threads
 * are few by then, the shelves must be emptied. */
static void few_unseen(void *unused) {
    static hk_thread_t gone; /* zeroed, as a new record */
    static _Atomic(hk_tcache_t *) nobodys;
    (void)unused;
    hk_thread_t *thread = of_one_processor();
    const unsigned cls = hk_class_of(64);
    hk_lock(&hk_registry);
    hk_heap_init(&gone.heap);
    gone.tc = &nobodys;
    hk_unlock(&hk_registry);
    count_as(HK_MANY_THREADS * 3 / 4 + 1);
    void *p = crowd_block(thread, cls);
    hk_crowd_give(thread, cls, p);
    CHECK(on_shelves(cls) != 0);
    CHECK(hk_gate_enter(thread));
    hk_lock(&hk_registry);
    hk_thread_plan_locked(&gone);
    hk_unlock(&hk_registry);
    hk_gate_leave(thread);
    CHECK_EQ(hk_load_relaxed(&hk_heap_threads), HK_MANY_THREADS * 3 / 4);
    CHECK_EQ(on_shelves(cls), 0);
}

/* ---- very many threads ---- */

enum { VERY_MANY = 300 };

/* The owner of the slab of a block that the thread gets after `rounds` rounds of 64 blocks. While its
 * magazine is small, a round takes the thread to the boundary at least ten times. */
static const hk_heap_t *owner_after(unsigned rounds) {
    static _Thread_local void *blocks[64];
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 64; i++)
            CHECK((blocks[i] = hak_malloc(64)) != NULL);
        for (unsigned i = 0; i < 64; i++)
            hak_free(blocks[i]);
    }
    CHECK((blocks[0] = hak_malloc(64)) != NULL);
    const hk_heap_t *owner = hk_load_relaxed(&hk_slab_of(blocks[0])->owner);
    hak_free(blocks[0]);
    return owner;
}

static bool is_crowd(const hk_heap_t *heap) {
    return heap >= hk_crowds && heap < hk_crowds + HK_CROWDS;
}

/* Takes and frees one block of each class, again and again. Fails if memory in use grows: a magazine
 * that gives its place up to others must not lose blocks. */
static void nothing_is_lost(void) {
    enum { ROUNDS = 100 };
    void *one[HK_CLASS_FIXED];
    size_t first = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
            one[cls] = hak_malloc(hk_classes[cls].size);
        for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
            hak_free(one[cls]);
        first = round == 0 ? pool_stats().active : first;
    }
    CHECK(pool_stats().active <= first + HK_MIB / 2);
}

/* With very many threads, even a busy thread has neither slabs nor a magazine of its own. It gets both
 * when threads are fewer, and gives both up when they are very many again, unless HAKMEM_TCACHE_KB is
 * set. */
static void *live_among_very_many(void *last) {
    hak_free(hak_malloc(64));
    const hk_thread_t *own = own_record();
    const hk_magazine_t *mag = &own->magazines[hk_class_of(64)];
    pthread_barrier_wait(&together);
    if (last != NULL) {
        nothing_is_lost();
        CHECK(is_crowd(owner_after(500)) && mag->crowd && mag->capacity == 0);
        hk_store_relaxed(&hk_heap_threads, HK_VERY_MANY_THREADS);
        owner_after(500);
        CHECK(!mag->crowd && mag->capacity != 0);
        hk_store_relaxed(&hk_heap_threads, VERY_MANY);
        drive(hk_class_of(64)); /* more blocks than the magazine has room for */
        CHECK(is_crowd(owner_after(1)) && mag->crowd && mag->capacity == 0);
        hk_store_relaxed(&hk_origins[HK_OPTION_tcache_kb], HK_FROM_ENVIRONMENT);
        owner_after(500);
        CHECK(!mag->crowd && mag->capacity != 0);
    }
    pthread_barrier_wait(&together);
    return NULL;
}

static void very_many(void *unused) {
    static pthread_t threads[VERY_MANY];
    (void)unused;
    CHECK(pthread_barrier_init(&together, NULL, VERY_MANY) == 0);
    for (unsigned i = 0; i < VERY_MANY; i++)
        CHECK(pthread_create(&threads[i], NULL, live_among_very_many,
                             i + 1 == VERY_MANY ? threads : NULL) == 0);
    for (unsigned i = 0; i < VERY_MANY; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        CHECK_EQ(on_shelves(cls), 0); /* emptied as the threads ended */
}

/* ---- what slabs of the crowd teach ---- */

/* Slabs that a crowd's heap needs for one size teach a class, as those of a thread do. */
static void teaches(void *unused) {
    enum { N = 3000, SIZE = 4368 };
    (void)unused;
    hk_thread_t *thread = of_one_processor();
    CHECK(hk_class_of(SIZE) < HK_CLASS_FIXED);
    hk_store_relaxed(&hk_heap_threads, HK_MANY_THREADS + 1u);
    thread->magazines[hk_class_of(SIZE)].crowd = true;
    for (unsigned i = 0; i < N && hk_class_of(SIZE) < HK_CLASS_FIXED; i++) {
        thread->magazines[hk_class_of(SIZE)].crowd_visits = 0; /* it is not busy */
        void *p = hak_malloc(SIZE);
        CHECK(is_crowd(hk_load_relaxed(&hk_slab_of(p)->owner)));
    }
    CHECK(hk_class_of(SIZE) >= HK_CLASS_FIXED);
}

/* ---- blocks that many threads leave behind ---- */

enum { LEAVERS = 48, LEFT = 24, BYTES = 1024 };
static void *left[LEAVERS][LEFT];

static void *leave(void *blocks) {
    hak_free(hak_malloc(64));
    pthread_barrier_wait(&together);
    hk_thread_flush(own_record(), true);
    hk_magazines_reset(own_record());
    for (unsigned i = 0; i < LEFT; i++)
        CHECK((((void **)blocks)[i] = hak_malloc(BYTES)) != NULL);
    pthread_barrier_wait(&together);
    return NULL;
}

/* Threads end and leave blocks in shared slabs; half of these are freed. Fails if as many new blocks
 * need more than two new slices. */
static void leavers(void *unused) {
    pthread_t threads[LEAVERS];
    const unsigned cls = hk_class_of(BYTES);
    (void)unused;
    hak_free(hak_malloc(BYTES));
    CHECK(pthread_barrier_init(&together, NULL, LEAVERS) == 0);
    for (unsigned i = 0; i < LEAVERS; i++)
        CHECK(pthread_create(&threads[i], NULL, leave, left[i]) == 0);
    for (unsigned i = 0; i < LEAVERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    unsigned shared = 0;
    for (unsigned i = 0; i < LEAVERS * LEFT; i++) {
        void *p = left[i / LEFT][i % LEFT];
        shared += is_crowd(hk_load_relaxed(&hk_slab_of(p)->owner));
        if (i % 2 != 0)
            hak_free(p);
    }
    CHECK(shared > LEAVERS * LEFT / 2);
    const size_t carved = hk_pool_carved(cls);
    for (unsigned i = 0; i < LEAVERS * LEFT / 2 - LEFT; i++)
        CHECK(hak_malloc(BYTES) != NULL);
    CHECK(hk_pool_carved(cls) <= carved + 2 * HK_SLICE);
}

int main(void) {
    check_passes(crowds, NULL);
    check_passes(shelves, NULL);
    check_passes(at_hand, NULL);
    check_passes(of_few, NULL);
    check_passes(in_turn, NULL);
    check_passes(few_again, NULL);
    check_passes(few_unseen, NULL);
    check_passes(very_many, NULL);
    check_passes(teaches, NULL);
    check_passes(leavers, NULL);
    return 0;
}
