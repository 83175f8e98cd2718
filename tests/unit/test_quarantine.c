/* Quarantines: which blocks wait and which come out; and with many threads, a thread's quarantine has few places until
 * the thread is busy, and threads share slabs. */
#include "backend/superslab.h"
#include "faults.h"
#include "front/thread.h"
#include "guard/quarantine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static hk_quarantine_t *new_quarantine(void) {
    const size_t bytes = hk_align_up(hk_quarantine_bytes(), HK_CACHE_LINE);
    hk_quarantine_t *q = aligned_alloc(HK_CACHE_LINE, bytes);
    CHECK(q != NULL);
    memset(q, 0, bytes);
    hk_quarantine_begin(q);
    return q;
}

/* Blocks fresh from slabs are taken last in, first out, each with the shadow of its own slice, although neighbours in
 * the list lie in different slices. */
static void fresh_ones_come_in_order(void) {
    enum { EACH = 40, ALL = EACH * HK_QUARANTINE_FRESH };
    hk_quarantine_t *q = new_quarantine();
    static void *all[ALL], *blocks[HK_QUARANTINE_FRESH];
    const unsigned cls = hk_class_of(3001);
    for (unsigned i = 0; i < ALL; i++)
        all[i] = hak_malloc(3000);
    for (unsigned i = 0; i < HK_QUARANTINE_FRESH; i++)
        blocks[i] = all[i / 2 * 2 * EACH + i % 2]; /* pairs, mostly in different slices */
    hk_quarantine_grow(q, cls);
    hk_quarantine_put_fresh(q, cls, blocks, HK_QUARANTINE_FRESH);
    for (unsigned i = HK_QUARANTINE_FRESH; i-- > 0;) {
        const hk_waiting_t got = hk_quarantine_take(q, cls);
        CHECK(got.p == blocks[i] && got.shadow == hk_shadow_of(got.p, cls));
    }
    CHECK(hk_quarantine_take(q, cls).p == NULL);
    for (unsigned i = 0; i < ALL; i++)
        hak_free(all[i]);
    free(q);
}

/* When a class with few places gets all of them, it keeps its blocks, in order, and other classes keep theirs. */
static void what_is_there_stays(void) {
    static char blocks[HK_CLASS_COUNT][2 * HK_QUARANTINE_FEW];
    hk_quarantine_t *q = new_quarantine();
    for (unsigned i = 0; i < HK_QUARANTINE_FEW; i++)
        for (unsigned cls = 2; cls < HK_CLASS_FIXED; cls++)
            CHECK(hk_quarantine_put_out(q, cls, (hk_waiting_t){&blocks[cls][i], NULL}));
    for (unsigned cls = 2; cls < HK_CLASS_FIXED; cls++) {
        const hk_waiting_t waits = {&blocks[cls][HK_QUARANTINE_FEW], NULL};
        CHECK(!hk_quarantine_put_out(q, cls, waits)); /* there is no room */
        CHECK(hk_quarantine_put_slow(q, cls, waits) == NULL);
        CHECK_EQ(hk_quarantine_count(q, cls), HK_QUARANTINE_FEW + 1);
        hk_quarantine_grow(q, cls);
    }
    for (unsigned cls = 2; cls < HK_CLASS_FIXED; cls++) {
        CHECK_EQ(hk_quarantine_count(q, cls), HK_QUARANTINE_FEW + 1);
        for (unsigned i = HK_QUARANTINE_FEW; i-- > 0;)
            CHECK(hk_quarantine_take(q, cls).p == &blocks[cls][i]);
        CHECK(hk_quarantine_take(q, cls).p == NULL);
        CHECK(hk_quarantine_drain(q, cls) == &blocks[cls][HK_QUARANTINE_FEW]);
        CHECK(hk_quarantine_drain(q, cls) == NULL && hk_quarantine_count(q, cls) == 0);
    }
    free(q);
}

/* While a class has few places, a thread that takes and frees in turn goes the long way now and then, and is found to
 * be busy: neither too early nor never. Once the class has all places, hk_quarantine_put() suffices. */
static void who_frees_much_gets_all(void) {
    static char block;
    const hk_waiting_t one = {&block, NULL};
    hk_quarantine_t *q = new_quarantine();
    unsigned frees = 0;
    CHECK(hk_quarantine_put_out(q, 2, one) && hk_quarantine_take(q, 2).p == &block);
    for (bool busy = false; !busy; frees++) {
        CHECK(frees < 100 * HK_QUARANTINE_OFTEN);
        if (!hk_quarantine_put(q, hk_quarantine_close(q), &q->bays[2], one)) {
            busy = hk_quarantine_visited_often(q, 2);
            CHECK(hk_quarantine_put_slow(q, 2, one) == NULL);
        }
        hk_quarantine_take(q, 2);
    }
    CHECK(frees > 10 * HK_QUARANTINE_OFTEN);
    hk_quarantine_grow(q, 2);
    for (unsigned i = 0; i < frees; i++, hk_quarantine_take(q, 2)) /* at most the first put fails */
        if (!hk_quarantine_put(q, hk_quarantine_close(q), &q->bays[2], one))
            CHECK(i == 0);
    free(q);
}

/* Newcomers drive out every waiting block in time, each once, and as many wait as the class has room for. */
static void every_place_is_left(void) {
    hk_quarantine_t *q = new_quarantine();
    static char blocks[HK_QUARANTINE_MOST + 4000];
    const unsigned room = hk_quarantine_room(2);
    unsigned left[sizeof blocks] = {0}, gone = 0;
    CHECK(room > 16 && room <= HK_QUARANTINE_MOST);
    CHECK(hk_quarantine_room(hk_class_of(HK_MID_MAX)) > 1);
    hk_quarantine_grow(q, 2);
    for (unsigned i = 0; i < sizeof blocks; i++) {
        const hk_waiting_t one = {&blocks[i], NULL};
        if (!hk_quarantine_put(q, hk_quarantine_close(q), &q->bays[2], one))
            CHECK(hk_quarantine_put_slow(q, 2, one) == NULL);
        char *out = hk_quarantine_take(q, 2).p;
        CHECK(out == NULL || (out >= blocks && out < &blocks[i]));
        if (out != NULL)
            left[out - blocks]++;
    }
    for (unsigned i = 0; i < sizeof blocks; i++) {
        CHECK(left[i] <= 1);
        gone += left[i];
        CHECK(left[i] == 1 || i > 2000);
    }
    CHECK_EQ(gone, sizeof blocks - room);
    CHECK_EQ(hk_quarantine_count(q, 2), room);
    while (hk_quarantine_drain(q, 2) != NULL)
        gone++;
    CHECK_EQ(gone, sizeof blocks);
    CHECK_EQ(hk_quarantine_count(q, 2), 0);
    free(q);
}

/* Fewer large blocks may have waited than small ones. */
static void long_ones_are_few(void) {
    hk_quarantine_t *q = new_quarantine();
    const unsigned classes[] = {hk_class_of(100), hk_class_of(HK_MID_MAX)};
    unsigned out[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++) {
        hk_quarantine_grow(q, classes[i]);
        while (hk_quarantine_put_out(q, classes[i], (hk_waiting_t){&out[i], NULL}))
            out[i]++;
        CHECK_EQ(hk_quarantine_count(q, classes[i]), out[i]);
    }
    CHECK(out[0] == HK_QUARANTINE_OUT && out[1] == HK_QUARANTINE_OUT / 4);
    free(q);
}

/* ---- many threads ---- */

enum { THREADS = HK_MANY_THREADS + 120, BYTES = 200, EACH = 3 * HK_SHUFFLED };
static pthread_barrier_t phase; /* threads have their blocks; main has looked at them */
static char *blocks[THREADS][EACH];

static unsigned cls(void) { return hk_class_of(BYTES + 1); }

static hk_quarantine_t *own_quarantine(void) {
    return hk_load_relaxed(&hk_load_relaxed(&hk_tc)->thread->quarantine);
}

static atomic_uint
    small; /* threads with few places at their end: all but those that started or ended
                             * while threads were not many */

static void *holds_a_few(void *own) {
    char **mine = own;
    for (unsigned i = 0; i < EACH; i++)
        CHECK((mine[i] = hak_malloc(BYTES)) != NULL);
    pthread_barrier_wait(&phase);
    pthread_barrier_wait(&phase);
    for (unsigned i = 0; i < EACH; i++)
        hak_free(mine[i]);
    hk_add_relaxed(&small, (unsigned)hk_quarantine_is_small(own_quarantine(), cls()));
    return NULL;
}

/* How many of a thread's blocks lie at a higher address than the block before. */
static unsigned ascending(char **mine) {
    unsigned n = 0;
    for (unsigned i = 1; i < EACH; i++)
        n += mine[i] > mine[i - 1];
    return n;
}

/* Many threads share slabs, and get their blocks shuffled, not in order of addresses. */
static void many_share_their_slabs(void) {
    pthread_t ids[THREADS];
    unsigned shared = 0, in_order = 0;
    CHECK_EQ(pthread_barrier_init(&phase, NULL, THREADS + 1), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&ids[i], NULL, holds_a_few, blocks[i]), 0);
    pthread_barrier_wait(&phase);
    for (unsigned i = 0; i < THREADS; i++) {
        bool shares = false;
        for (unsigned k = 0; k < THREADS && !shares; k++)
            shares = k != i && hk_slab_of(blocks[k][0]) == hk_slab_of(blocks[i][0]);
        shared += shares;
        in_order += ascending(blocks[i]) == EACH - 1;
    }
    CHECK(shared >= THREADS - HK_MANY_THREADS - 1);
    CHECK(in_order < THREADS / 4 || HK_HOSTILE); /* its magazines hold too few */
    pthread_barrier_wait(&phase);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(ids[i], NULL), 0);
    CHECK(small >= THREADS - 2 * HK_MANY_THREADS - 2);
    pthread_barrier_destroy(&phase);
}

static void *is_busy(void *unused) {
    pthread_barrier_wait(&phase);
    for (unsigned i = 0; i < 200 * HK_QUARANTINE_OFTEN; i++)
        hak_free(hak_malloc(BYTES));
    CHECK(!hk_quarantine_is_small(own_quarantine(), cls()));
    CHECK_EQ(own_quarantine()->bays[cls()].last + 1u, hk_quarantine_room(cls()));
    return unused;
}

static void *is_idle(void *unused) {
    hak_free(hak_malloc(BYTES));
    pthread_barrier_wait(&phase);
    return unused;
}

static void busy_ones_have_all(void) {
    enum { BUSY = 2 };
    pthread_t ids[THREADS];
    CHECK_EQ(pthread_barrier_init(&phase, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&ids[i], NULL, i < BUSY ? is_busy : is_idle, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(ids[i], NULL), 0);
    pthread_barrier_destroy(&phase);
}

/* With few threads a class has all places from its first block on. */
static void few_threads_have_all(void) {
    hak_free(hak_malloc(BYTES));
    CHECK(!hk_quarantine_is_small(own_quarantine(), cls()));
}

int main(void) {
    guard();
    every_place_is_left();
    long_ones_are_few();
    fresh_ones_come_in_order();
    what_is_there_stays();
    who_frees_much_gets_all();
    few_threads_have_all();
    many_share_their_slabs();
    busy_ones_have_all();
}
