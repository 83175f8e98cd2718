/* Threads that come and go, and many of them: what they leave in magazines is bounded, their magazines share a budget,
 * and those that do little share slabs. */
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

/* The C library frees something for a thread when all its destructors have run: a record that it got then would never be
 * left. */
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

/* As many of them as you like, on stacks of the program's, which the C library does not keep. */
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
        /* its stack is the next one's */
        while (atomic_load(&alive) == 0 ||
               syscall(SYS_tgkill, getpid(), atomic_load(&alive), 0) == 0)
            usleep(100);
    }
    CHECK_EQ(hk_load_relaxed(&hk_heap_threads), before);
    munmap(stack, STACK);
}

/* ---- what ended threads leave ---- */

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

/* Of threads that leave much each some keep it, and all records together no more than so much. */
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

/* The first threads' blocks go back; where threads come and go a few records keep a little, until a trim. */
static void left_behind(void *unused) {
    (void)unused;
    hak_free(hak_malloc(64)); /* not later, by a record that another has left */
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
    CHECK_EQ(records_with_blocks(1), HK_HOSTILE); /* where a thread never holds much */
    for (unsigned i = 0; i < LIVES; i++)
        live_together(CROWD);
    CHECK(HK_HOSTILE || records_with_blocks(CROWD) == CROWD); /* so many share all they have */
    for (unsigned i = 0; i < 2; i++) /* what was kept is not counted twice */
        bounded_together();
    hk_trim();
    CHECK_EQ(records_with_blocks(CROWD), 0);
    bounded_together();
}

/* Of the heaps that many threads share, one that nobody is at, as long as there is one. */
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
    CHECK(hk_crowd(thread) == &hk_crowds[HK_CROWDS - 1]); /* no need to change */
    hk_store_relaxed(&hk_crowds[HK_CROWDS - 1].lock.taken, 1u);
    CHECK(hk_crowd(thread) == &hk_crowds[0]);
    hk_store_relaxed(&hk_crowds[0].lock.taken, 1u);
    const hk_heap_t *any = hk_crowd(thread);
    CHECK(any >= hk_crowds && any < hk_crowds + HK_CROWDS);
}

/* ---- shelves ---- */

static unsigned on_shelves(unsigned cls) {
    size_t blocks[HK_CLASS_COUNT] = {0};
    hk_crowds_add_held(blocks);
    return (unsigned)blocks[cls];
}

/* The calling thread's record; there are many threads, and their shelves are those of one processor. */
static hk_thread_t *of_one_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    hak_free(hak_malloc(64));
    hk_crowds_gather_locked(true);
    void *p = hk_crowd_take(own_record(), hk_class_of(64)); /* which makes them */
    CHECK(p != NULL);
    hk_crowd_give(own_record(), hk_class_of(64), p);
    return own_record();
}

static void take_all(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        CHECK((blocks[i] = hk_crowd_take(thread, cls)) != NULL);
        memset(blocks[i], 1, hk_classes[cls].size);
    }
}

static unsigned give_all(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    unsigned to_slabs = 0;
    for (unsigned i = 0; i < n; i++)
        to_slabs += hk_crowd_give(thread, cls, blocks[i]);
    return to_slabs;
}

/* What a crowd's thread frees serves who comes next, up to so much: the rest goes to its slab, as all does in a sparse
 * class, of a large one, and where it is asked for. */
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
    hk_crowds_clear();
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)1 << cls);
    CHECK_EQ(give_all(thread, cls, blocks, N), N);
    CHECK_EQ(on_shelves(cls), 0);
}

/* A thread of the crowd goes by its shelf without entering, which is nothing to others: as far as there is something, or room, of
 * small blocks, and as long as it is of the crowd. */
static void at_hand(void *unused) {
    static void *blocks[2];
    (void)unused;
    hk_thread_t *thread = of_one_processor();
    const unsigned cls = hk_class_of(64);
    CHECK(hk_crowd_pop(64) == NULL); /* not of the crowd */
    void *p = hak_malloc(64);
    CHECK(!hk_crowd_push(p));
    hk_thread_flush(thread, true);
    hk_magazines_reset(thread);
    thread->magazines[cls].crowd = true;
    hk_crowds_clear();
    CHECK(hk_crowd_pop(64) == NULL); /* nothing there */
    hk_store_relaxed(&hk_heap_threads, HK_MANY_THREADS + 1u);
    hk_alone_look();
    CHECK(hk_gate_enter(thread)); /* as in a handler that has interrupted the boundary */
    hak_free(p);
    CHECK_EQ(on_shelves(cls), 1);
    CHECK(hak_malloc(64) == p && on_shelves(cls) == 0);
    hk_gate_leave(thread);
    while (hk_crowd_push(p)) /* a block in two places, only here */
        continue;
    CHECK_EQ(on_shelves(cls), HK_HOSTILE ? 2 : 31);
    while (hk_crowd_pop(64) != NULL)
        continue;
    CHECK_EQ(on_shelves(cls), 0);
    take_all(thread, cls, blocks, 2);
    CHECK(!hk_crowd_push(NULL) && !hk_crowd_push(blocks) && hk_crowd_pop(SIZE_MAX) == NULL);
    CHECK(hk_crowd_pop(HK_MID_MAX) == NULL && hk_crowd_pop(HK_MID_MAX + 1) == NULL);
}

/* ---- many threads ---- */

enum { THREADS = 64 };

/* Grows all magazines twice: before the other threads are there, and among them. */
static void *live_among_many(void *most) {
    const unsigned from = hk_class_of(64), to = hk_class_of(16384);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned cls = from; cls <= to; cls++)
            drive(cls);
        pthread_barrier_wait(&together);
    }
    *(size_t *)most = pinned(own_record());
    pthread_barrier_wait(&together); /* a record that is left starts anew */
    return NULL;
}

/* All threads' magazines share a budget as well, and those that have more give way as they go on. Each may
 * hold one block all the same. */
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

/* ---- many threads that come and go ---- */

/* Whether the thread's blocks come from slabs that it shares with others, while so many are there. */
static void *live_in_turn(void *alone) {
    const unsigned cls = hk_class_of(64);
    hak_free(hak_malloc(64));
    pthread_barrier_wait(&together);
    hk_thread_flush(own_record(), true);
    hk_magazines_reset(own_record());
    hak_free(hak_malloc(64));
    *(bool *)alone = !own_record()->magazines[cls].crowd;
    pthread_barrier_wait(&together);
    return NULL;
}

/* A new thread of many shares slabs; on a record that several have had before it does not, unless very many are
 * there. Returns how many of them do not. */
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

/* ---- very many threads ---- */

enum { VERY_MANY = 300 };

/* Who owns the slab of a block that the thread is handed after so many rounds of 64 blocks, each of which takes it to the boundary
 * ten times or more while its magazine is small. */
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

/* One block of each class, again and again: no magazine that has given way to others loses any. */
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

/* Where they are that many a thread has no slab of its own, nor a magazine, whatever it does. It has both once they are not as many, and
 * gives both up when they are again, unless it was said how much a thread may hold. */
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
        drive(hk_class_of(64)); /* more than the magazine has room for */
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
        CHECK_EQ(on_shelves(cls), 0); /* since they became few */
}

/* ---- what many threads leave ---- */

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

/* Half of what they had is freed, and serves those who are left. */
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

static void free_only(void *unused) {
    (void)unused;
    only_frees();
    never_allocate();
}

int main(void) {
    check_passes(free_only, NULL);
    check_passes(left_behind, NULL);
    check_passes(crowds, NULL);
    check_passes(shelves, NULL);
    check_passes(at_hand, NULL);
    check_passes(many, NULL);
    check_passes(in_turn, NULL);
    check_passes(very_many, NULL);
    check_passes(leavers, NULL);
    return 0;
}
