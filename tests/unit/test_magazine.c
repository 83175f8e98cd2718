/* Magazines: a thread's magazines stay within its budget (HAKMEM_TCACHE_KB) in whatever order they grow; a full
 * magazine gives few blocks back at a time, and a flush gives back all. */
#include <pthread.h>

#include "check.h"
#include "config/config.h"
#include "config/table.h"
#include "faults.h"
#include "front/boundary.h"
#include "magazines.h"
#include "pool_stats.h"

static void check_budget(const char *order) {
    size_t bytes = pinned(own_record()), allowed = hk_option(tcache_kb) * HK_KIB;
    dprintf(STDOUT_FILENO, "%s: magazines may hold %zu bytes, %zu are allowed\n", order, bytes,
            allowed);
    CHECK(bytes <= allowed);
    /* Nor is the budget wasted: they may hold nine tenths of it, or of `wanted` if that is less. */
    const size_t wanted = HK_HOSTILE ? 256 * HK_KIB : 4 * HK_MIB;
    CHECK(bytes >= hk_min(allowed, wanted) * 9 / 10);
}

static void *small_first(void *unused) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        drive(cls);
    check_budget("small classes first");
    return unused;
}

static void *large_first(void *unused) {
    for (unsigned cls = HK_CLASS_FIXED - 1; cls >= 1; cls--)
        drive(cls);
    check_budget("large classes first");
    return unused;
}

/* A class used alone gets its largest magazine: the budget allows it. */
static void *one_class(void *unused) {
    unsigned cls = hk_class_of(256);
    drive(cls);
    CHECK_EQ(own_record()->magazines[cls].capacity, hk_classes[cls].magazine);
    CHECK_EQ(pinned(own_record()) / hk_classes[cls].size >= hk_classes[cls].magazine, 1);
    return unused;
}

static void *flush_empties(void *unused) {
    const unsigned last = hk_class_of(256); /* fits into any budget */
    for (unsigned cls = 1; cls <= last; cls++)
        drive(cls);
    for (unsigned cls = 1; cls <= last; cls++)
        CHECK(held(own_record(), cls) != 0);
    size_t active = pool_stats().active;
    hk_thread_t *thread = hk_thread_enter();
    CHECK(thread == own_record());
    hk_thread_flush(thread, true);
    hk_thread_leave(thread);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        CHECK_EQ(held(thread, cls), 0);
    CHECK(pool_stats().active < active);
    return unused;
}

/* With lean, a growing heap empties idle magazines, so that they keep no slab; without lean it leaves them alone. */
static void grow(bool lean) {
    enum { BLOCKS = 64 * 1024 };
    static void *blocks[BLOCKS];
    const unsigned idle = hk_class_of(1024);
    hk_store_relaxed(&hk_config.lean, (uint64_t)lean);
    drive(idle);
    CHECK(held(own_record(), idle) != 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = hak_malloc(128)) != NULL);
    CHECK_EQ(held(own_record(), idle) == 0, lean);
    CHECK_EQ(hk_pool_carved(idle) == 0, lean);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

static void *growth_sweeps(void *unused) {
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF); /* no purger */
    grow(false);
    grow(true);
    return unused;
}

/* ---- how much a full magazine gives back ---- */

enum { IN_FEW_SLABS = 4096, LIVE = 8192 };
static void *live[LIVE];

/* Frees a block; returns how many blocks the magazine gave back to the heap. */
static unsigned give_one(unsigned cls, void *p) {
    hk_thread_t *thread = own_record();
    const unsigned before = held(thread, cls);
    hak_free(p);
    return before + 1 - held(thread, cls);
}

static void allocate_shuffled(unsigned cls, unsigned count) {
    uint32_t x = 1;
    for (unsigned i = 0; i < count; i++)
        live[i] = hak_malloc(hk_classes[cls].size);
    for (unsigned i = count - 1; i != 0; i--) {
        x = x * 1664525u + 1013904223u;
        const unsigned k = (unsigned)(((uint64_t)x * (i + 1)) >> 32);
        void *p = live[i];
        live[i] = live[k];
        live[k] = p;
    }
}

/* After a flush a refill brings no more blocks than the full magazine last gave back, or than 16, even if more are free. */
static void as_many_come_back(unsigned cls) {
    void *taken[1024];
    unsigned freed = 0, gave = 0, n = 0;
    for (; freed < hk_classes[cls].magazine; freed++)
        hak_free(live[freed]);
    hk_thread_flush(own_record(), true);
    for (; gave == 0; freed++)
        gave = give_one(cls, live[freed]);
    while (held(own_record(), cls) != 0)
        taken[n++] = hak_malloc(hk_classes[cls].size);
    taken[n++] = hak_malloc(hk_classes[cls].size);
    CHECK(held(own_record(), cls) < hk_max(gave, 16));
    while (n != 0)
        hak_free(taken[--n]);
    while (freed != 0)
        live[--freed] = hak_malloc(hk_classes[cls].size);
}

/* Replaces blocks out of `count` shuffled ones. A thread that allocates between its frees gives back at most half a
 * magazine at a time, and fewer if the blocks lie in many slabs; a thread that only frees gives back more each time, up
 * to a whole magazine. Returns the average that goes back at a time in the first case. */
static unsigned replace(unsigned count) {
    enum { ROUNDS = 500, MOST = 16 + 64 };
    const unsigned cls = hk_class_of(512), full = hk_classes[cls].magazine;
    unsigned most = 0, sum = 0;
    drive(cls);
    CHECK_EQ(own_record()->magazines[cls].capacity, full);
    allocate_shuffled(cls, count);
    for (unsigned round = 0, at = 0; round < ROUNDS; round++) {
        unsigned freed = 0, gave = 0;
        for (; gave == 0; freed++)
            gave = give_one(cls, live[(at + freed) % count]);
        CHECK(gave <= (full + 1) / 2 && gave <= MOST);
        sum += gave;
        for (unsigned i = 0; i < freed; i++, at++)
            live[at % count] = hak_malloc(hk_classes[cls].size);
    }
    if (count == IN_FEW_SLABS)
        as_many_come_back(cls);
    for (unsigned i = 0; i < count; i++) {
        unsigned gave = give_one(cls, live[i]);
        most = gave > most ? gave : most;
    }
    CHECK_EQ(most, full);
    return sum / ROUNDS;
}

static void *few_at_a_time(void *unused) {
    const unsigned few = replace(LIVE), more = replace(IN_FEW_SLABS);
    dprintf(STDOUT_FILENO, "%u at a time, %u of few slabs\n", few, more);
    CHECK(HK_HOSTILE || (few >= 4 && few < 16 && more >= 16));
    return unused;
}

/* Blocks of many sizes are replaced at random, some hundreds of each class: the magazines grow until they absorb the
 * fluctuation in each class's number of blocks, so that nearly every call is a hit. Fails if they stay too small. */
static void *replaced_at_random(void *unused) {
    enum { ROUNDS = 500 * 1000, VISITS = 24 };
    uint32_t x = 1;
    unsigned visits = 0;
    for (unsigned i = 0; i < LIVE; i++)
        live[i] = hak_malloc(16 + (x = x * 1664525u + 1013904223u) / 65536 % 1024);
    for (unsigned round = 0; round < 2 * ROUNDS; round++) {
        if (round == ROUNDS)
            visits = own_record()->visits;
        const unsigned k = (x = x * 1664525u + 1013904223u) / 65536 % LIVE;
        hak_free(live[k]);
        live[k] = hak_malloc(16 + (x = x * 1664525u + 1013904223u) / 65536 % 1024);
    }
    visits = (uint16_t)(own_record()->visits - visits);
    dprintf(STDOUT_FILENO, "%u visits in %u rounds\n", visits, (unsigned)ROUNDS);
    CHECK(HK_HOSTILE || visits <= VISITS);
    for (unsigned i = 0; i < LIVE; i++)
        hak_free(live[i]);
    return unused;
}

/* ---- wide magazines ---- */

enum { ONE_WAY = 8192, NARROW = HK_HOSTILE ? 1 : 128 };

/* The capacity for a thread that only allocates or only frees, of small blocks and of larger ones. */
static const struct { unsigned size, most; } narrow[] = {{64, NARROW}, {1024, HK_HOSTILE ? 1 : 64}};

/* A thread that only allocates, or only frees other threads' blocks, gets a narrow magazine; a thread that does both
 * in turn gets a wide one (in_turn). */
static void *only_takes(void *blocks) {
    for (unsigned i = 0; i < ONE_WAY; i++)
        ((void **)blocks)[i] = hak_malloc(narrow[i % 2].size);
    for (unsigned k = 0; k < 2; k++)
        CHECK_EQ(own_record()->magazines[hk_class_of(narrow[k].size)].capacity, narrow[k].most);
    return blocks;
}

static void *only_frees(void *blocks) {
    for (unsigned i = 0; i < ONE_WAY; i++)
        hak_free(((void **)blocks)[i]);
    for (unsigned k = 0; k < 2; k++)
        CHECK_EQ(own_record()->magazines[hk_class_of(narrow[k].size)].capacity, narrow[k].most);
    return blocks;
}

/* The magazine of a class that the thread visits seldom stays small, however many blocks it allocates in all. */
static void *takes_seldom(void *blocks) {
    enum { ROUNDS = 20, FEW = 8 };
    const unsigned cls = hk_class_of(256);
    for (unsigned i = 0; i < ROUNDS * FEW; i++) {
        if (i % FEW == 0)
            drive(hk_class_of(512));
        ((void **)blocks)[i] = hak_malloc(256);
    }
    CHECK(own_record()->magazines[cls].capacity <= HK_SOME);
    for (unsigned i = 0; i < ROUNDS * FEW; i++)
        hak_free(((void **)blocks)[i]);
    return blocks;
}

static void *in_turn(void *blocks) {
    const unsigned cls = hk_class_of(64);
    for (unsigned round = 0; round < 12; round++) {
        for (unsigned i = 0; i < ONE_WAY; i++)
            ((void **)blocks)[i] = hak_malloc(64);
        for (unsigned i = 0; i < ONE_WAY; i++)
            hak_free(((void **)blocks)[i]);
    }
    CHECK_EQ(own_record()->magazines[cls].capacity, hk_classes[cls].magazine);
    return blocks;
}

/* In a sparse class the magazine of a thread that allocates and frees in turn stays small, and grows if the thread only
 * frees; when the class is no longer sparse, it becomes as wide as before. */
static void *little_of_sparse(void *blocks) {
    enum { ROUNDS = 400, SPARSE = 8, MANY = 4096 };
    static void *all[MANY];
    const unsigned cls = hk_class_of(64);
    in_turn(blocks);
    const hk_magazine_t *mag = &own_record()->magazines[cls];
    for (unsigned i = 0; i < MANY; i++)
        all[i] = hak_malloc(64);
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)1 << cls);
    for (unsigned round = 0; round < ROUNDS; round++) {
        const unsigned n = mag->capacity + 2u; /* runs the magazine empty and full */
        for (unsigned i = 0; i < n; i++)
            hak_free(all[i]);
        for (unsigned i = 0; i < n; i++)
            all[i] = hak_malloc(64);
    }
    CHECK(HK_HOSTILE || mag->capacity == SPARSE);
    for (unsigned i = 0; i < MANY; i++)
        hak_free(all[i]);
    CHECK(HK_HOSTILE || mag->capacity > SPARSE);
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)0);
    return in_turn(blocks); /* checks that it is wide again */
}

static void wide(void *unused) {
    static void *blocks[ONE_WAY];
    void *(*const lives[])(void *) = {only_takes, only_frees, takes_seldom, in_turn,
                                      little_of_sparse};
    (void)unused;
    for (unsigned i = 0; i < sizeof lives / sizeof *lives; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, lives[i], blocks) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

/* Runs the test in a new thread; check_passes() gives it a process of its own, so that the thread inherits no record
 * whose magazines have grown already. */
static void in_new_thread(void *argument) {
    void *(*fn)(void *);
    memcpy(&fn, argument, sizeof fn);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fn, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void exec_with_option(void *kib) {
    static char self[] = "/proc/self/exe";
    setenv("HAKMEM_TCACHE_KB", kib, 1);
    execl(self, "test_magazine", kib, (char *)NULL);
    _exit(127);
}

/* The budget is halved after the thread got its record, as if the record were older than the options. */
static void lowered(void *unused) {
    (void)unused;
    hak_free(hak_malloc(100));
    hk_store_relaxed(&hk_config.tcache_kb, hk_option(tcache_kb) / 2);
    small_first(NULL);
}

/* Under the guard a refill brings several blocks, which are shuffled; with many threads, too, the magazines that it
 * grows stay within the budget. */
static void *visits_all(void *unused) {
    for (unsigned cls = HK_CLASS_FIXED - 1; cls >= 1; cls--) {
        hak_free(hidden(hak_malloc(hk_classes[cls].size - 1)));
        CHECK(pinned(own_record()) <= hk_option(tcache_kb) * HK_KIB);
    }
    return unused;
}

static void guarded_in_crowd(void *unused) {
    void *(*fn)(void *) = visits_all;
    (void)unused;
    guard();
    hk_store_relaxed(&hk_config.tcache_kb, hk_options[HK_OPTION_tcache_kb].least);
    hk_store_relaxed(&hk_heap_threads, HK_MANY_THREADS + 1u);
    in_new_thread(&fn);
}

int main(int argc, char **argv) {
    void *(*orders[])(void *) = {small_first,   large_first,   one_class,         flush_empties,
                                 growth_sweeps, few_at_a_time, replaced_at_random};
    if (argc == 2) { /* run by exec_with_option: the budgets of the main and a new thread */
        CHECK_EQ(hk_option(tcache_kb), strtoull(argv[1], NULL, 10));
        small_first(NULL);
        in_new_thread(&orders[1]);
        return 0;
    }
    for (unsigned i = 0; i < sizeof orders / sizeof orders[0]; i++)
        check_passes(in_new_thread, &orders[i]);
    check_passes(lowered, NULL);
    check_passes(wide, NULL);
    if (!HK_FAST)
        check_passes(guarded_in_crowd, NULL);
    const uint64_t budgets[] = {1000, 16384, hk_options[HK_OPTION_tcache_kb].least};
    for (unsigned i = 0; i < 3; i++) {
        char kib[24];
        snprintf(kib, sizeof kib, "%" PRIu64, budgets[i]);
        check_passes(exec_with_option, kib);
    }
    return 0;
}
