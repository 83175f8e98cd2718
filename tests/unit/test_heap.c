/* Heaps: taking and giving blocks, remote frees, empty slabs, adoption, and frees that must abort. The
 * tests use heaps of their own, which belong to no thread, and check each slab's equation at every
 * step. */
#include "backend/heap.h"

#include <limits.h>

#include "backend/pagemap.h"
#include "check.h"
#include "hakmem/hakmem.h"
#include "heaps.h"
#include "pool_stats.h"

static hk_heap_t a, b, orphan;

static void shuffle(void **blocks, unsigned n) {
    static uint64_t state = 1;
    for (unsigned i = n; i > 1; i--) {
        unsigned j = chance_below(&state, i);
        void *p = blocks[i - 1];
        blocks[i - 1] = blocks[j];
        blocks[j] = p;
    }
}

/* How many of blocks[0..n) lie in the slab. */
static unsigned held_in(const hk_slab_t *slab, void *const *blocks, unsigned n) {
    unsigned held = 0;
    for (unsigned i = 0; i < n; i++)
        held += hk_slab_of(blocks[i]) == slab;
    return held;
}

/* Fails unless blocks[0..n) are all of the slab's blocks, each once. */
static void check_all_once(const hk_slab_t *slab, void *const *blocks, unsigned n) {
    static bool seen[HK_SLAB_MAX_BLOCKS];
    const hk_class_t *c = &hk_classes[slab->cls];
    CHECK_EQ(n, c->blocks);
    memset(seen, 0, sizeof seen);
    for (unsigned i = 0; i < n; i++) {
        size_t offset = (size_t)((char *)blocks[i] - slab->base);
        CHECK(offset % c->size == 0 && offset / c->size < c->blocks);
        CHECK(!seen[offset / c->size]);
        seen[offset / c->size] = true;
    }
}

/* The first n blocks of a heap without slabs must be all blocks of one slab, whatever the order in which
 * they are given back and taken again. */
static void take_and_give(void) {
    static void *blocks[MOST];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned n = hk_classes[cls].blocks;
        take(&a, cls, blocks, n);
        hk_slab_t *slab = hk_slab_of(blocks[0]);
        CHECK(hk_load_relaxed(&slab->owner) == &a);
        check_all_once(slab, blocks, n);
        check_slab(slab, n);
        CHECK(a.partial[cls] == NULL);

        /* given back three times, in address order, in reverse and shuffled, and taken again each time */
        for (unsigned way = 0; way < 3; way++) {
            if (way == 1)
                for (unsigned i = 0; i < n / 2; i++) {
                    void *p = blocks[i];
                    blocks[i] = blocks[n - 1 - i];
                    blocks[n - 1 - i] = p;
                }
            if (way == 2)
                shuffle(blocks, n);
            unsigned first = n / 3;
            hk_heap_give(&a, cls, blocks, first);
            check_slab(slab, n - first);
            hk_heap_give(&a, cls, blocks + first, n - first);
            check_slab(slab, 0);
            CHECK(a.partial[cls] == slab); /* a class keeps its last empty slab */
            take(&a, cls, blocks, n);
            CHECK(hk_slab_of(blocks[n - 1]) == slab);
            check_all_once(slab, blocks, n);
        }
        for (unsigned i = 0; i < n; i++)
            hk_heap_give(&a, cls, &blocks[i], 1);
        check_slab(slab, 0);
        hk_heap_collect(&a);
        CHECK(a.partial[cls] == NULL && hk_load_relaxed(&slab->owner) == NULL);
        CHECK(hk_map_kind(slab->base) != cls);
    }
}

/* A batch that is given back may have blocks of several slabs, in any order. */
static void batches_across_slabs(void) {
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(1024), per_slab = hk_classes[cls].blocks, n = 5 * per_slab;
    take(&a, cls, blocks, n);
    hk_slab_t *slabs[5];
    for (unsigned s = 0; s < 5; s++)
        slabs[s] = hk_slab_of(blocks[s * per_slab]);
    shuffle(blocks, n);
    hk_heap_give(&a, cls, blocks, n / 2);
    for (unsigned s = 0; s < 5; s++)
        check_slab(slabs[s], held_in(slabs[s], blocks + n / 2, n - n / 2));
    hk_heap_give(&a, cls, blocks + n / 2, n - n / 2);
    unsigned left = 0;
    for (unsigned s = 0; s < 5; s++)
        left += hk_load_relaxed(&slabs[s]->owner) == &a;
    CHECK_EQ(left, 1); /* all empty slabs but one went back */
    hk_heap_collect(&a);
}

/* Blocks that another heap gives back must become free only when the owner collects, and their slab
 * must be pending exactly once until then. */
static void remote_frees(void) {
    static void *blocks[MOST];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls += 3) {
        unsigned n = hk_classes[cls].blocks, half = n / 2;
        take(&a, cls, blocks, n);
        hk_slab_t *slab = hk_slab_of(blocks[0]);
        shuffle(blocks, n);
        hk_heap_give(&b, cls, blocks, half);
        CHECK_EQ(hk_load_relaxed(&slab->free), 0); /* not collected yet */
        CHECK(b.partial[cls] == NULL);
        if (half != 0)
            CHECK(hk_load_relaxed(&a.pending) == slab);
        check_slab(slab, n - half);
        hk_heap_give(&b, cls, blocks + half, 1); /* must not queue the slab again */
        CHECK(half == 0 || hk_remote_of(slab)->pending_next == NULL);
        check_slab(slab, n - half - 1);
        if (n > 1) {
            unsigned got = hk_heap_take(&a, cls, blocks, 1); /* a take collects */
            CHECK(got == 1 && hk_slab_of(blocks[0]) == slab);
            CHECK(hk_load_relaxed(&a.pending) == NULL &&
                  hk_load_relaxed(&hk_remote_of(slab)->pending) == 0);
            check_slab(slab, n - half);
            hk_heap_give(&a, cls, blocks, 1);
        }
        hk_heap_give(&b, cls, blocks + half + 1, n - half - 1);
        hk_heap_collect_all(false, hk_stash_clear); /* by any thread; empty slabs go back */
        CHECK(hk_load_relaxed(&a.pending) == NULL && a.partial[cls] == NULL);
        CHECK(hk_load_relaxed(&slab->owner) == NULL);
    }
}

/* An empty slab's memory must serve other classes: the pool must not grow. */
static void retired_slabs_serve_any_class(void) {
    static void *blocks[4 * HK_SLAB_MAX_BLOCKS];
    size_t most = 0;
    for (unsigned round = 0; round < 3 * HK_CLASS_FIXED; round++) {
        unsigned cls = 1 + round * 17 % (HK_CLASS_FIXED - 1);
        hk_heap_t *heap = round % 2 ? &a : &b, *other = round % 3 ? &b : &a;
        unsigned n = 4 * hk_classes[cls].blocks;
        take(heap, cls, blocks, n);
        hk_heap_give(other, cls, blocks, n);
        hk_heap_collect(heap);
        CHECK(heap->partial[cls] == NULL);
        if (round == 4)
            most = pool_stats().superslabs;
        CHECK(round < 4 || pool_stats().superslabs <= most);
    }
}

/* A heap must adopt an orphan's slabs before it carves new ones; also slabs that were full, once one of
 * their blocks is freed. */
static void orphans_are_adopted(void) {
    static void *blocks[HK_CLASS_FIXED][MOST];
    static void *mine[2];
    unsigned adopted = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned n = hk_classes[cls].blocks;
        take(&orphan, cls, blocks[cls], n);
        if (cls % 2 == 0) /* an even class's slab is partly free, an odd one's is full */
            hk_heap_give(&orphan, cls, blocks[cls] + n - 1, 1);
    }
    hk_heap_set_orphan(&orphan, true);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned n = hk_classes[cls].blocks;
        hk_slab_t *slab = hk_slab_of(blocks[cls][0]);
        if (cls % 2 != 0)
            hk_heap_give(&b, cls, blocks[cls] + n - 1, 1);
        CHECK_EQ(hk_heap_take(&b, cls, mine, 1), 1);
        bool took_over = hk_load_relaxed(&slab->owner) == &b;
        CHECK(took_over == (mine[0] == blocks[cls][n - 1]));
        check_slab(slab, took_over ? n : n - 1);
        adopted += took_over;
        hk_heap_give(&b, cls, mine, 1);
        hk_heap_give(&b, cls, blocks[cls], n - 1); /* local or remote frees */
        check_slab(slab, 0);
    }
    CHECK(adopted + 3 >= HK_CLASS_FIXED - 1); /* the search may miss a slab now and then */
    hk_heap_set_orphan(&orphan, false);
    hk_heap_collect(&orphan);
    hk_heap_collect(&b);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        CHECK(orphan.partial[cls] == NULL && b.partial[cls] == NULL);
}

/* Two heaps take blocks and give back each other's at random. Fails if a block has two owners, or a
 * slab's equation is violated. */
static void random_traffic(void) {
    enum { LIVE = 3000, STEPS = 30000 };
    static void *live[LIVE];
    const unsigned cls = hk_class_of(600);
    hk_heap_t *heaps[] = {&a, &b};
    uint64_t state = 42;
    unsigned n = 0;
    size_t active = pool_stats().active;
    for (unsigned step = 0; step < STEPS; step++) {
        hk_heap_t *heap = heaps[chance_below(&state, 2)];
        unsigned count = 1 + chance_below(&state, 32);
        if (chance_below(&state, 100) < (step / 4000 % 2 ? 35u : 65u)) {
            count = (unsigned)hk_min(count, LIVE - n);
            if (count == 0)
                continue;
            unsigned got = hk_heap_take(heap, cls, live + n, count);
            CHECK(got >= 1);
            for (unsigned i = n; i < n + got; i++)
                *(void **)live[i] = live[i];
            n += got;
        } else {
            count = (unsigned)hk_min(count, n);
            for (unsigned i = 0; i < count; i++) {
                unsigned j = chance_below(&state, n - i), last = n - 1 - i;
                void *p = live[j];
                live[j] = live[last];
                live[last] = p;
                CHECK(*(void **)p == p);
            }
            n -= count;
            if (count != 0)
                hk_heap_give(heap, cls, live + n, count);
        }
        if (step % 1000 == 0)
            for (unsigned i = 0; i < n; i += 7)
                check_slab(hk_slab_of(live[i]), held_in(hk_slab_of(live[i]), live, n));
    }
    hk_heap_give(&a, cls, live, n);
    hk_heap_collect(&b);
    hk_heap_collect(&a);
    CHECK(a.partial[cls] == NULL && b.partial[cls] == NULL);
    CHECK_EQ(pool_stats().active, active);
}

/* ---- frees that must abort ---- */

typedef struct {
    hk_heap_t *first, *second; /* the heaps that give p1 and p2 back */
    unsigned cls;
    void *p1, *p2;
} crime_t;

static void commit_crime(void *argument) {
    crime_t *crime = argument;
    if (crime->p1 != NULL)
        hk_heap_give(crime->first, crime->cls, &crime->p1, 1);
    hk_heap_give(crime->second, crime->cls, &crime->p2, 1);
    hk_heap_collect(&a);
}

/* Gives both back in one batch, as the flush of a magazine would. */
static void commit_in_one_batch(void *argument) {
    crime_t *crime = argument;
    hk_heap_give(&a, crime->cls, (void *[]){crime->p1, crime->p2}, 2);
}

/* Double frees by the owner, by others and in one batch, and frees of inner, foreign, unused or wrong
 * class's addresses must abort with the right message. */
static void double_and_invalid_frees_abort(void) {
    static void *blocks[MOST];
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls += 8) {
        unsigned n = hk_classes[cls].blocks;
        char *p, *tail;
        take(&a, cls, blocks, n);
        p = blocks[n / 2];
        tail = hk_slab_of(p)->base + (size_t)n * hk_classes[cls].size;
        crime_t twice[] = {
            {&a, &a, cls, p, p}, {&b, &b, cls, p, p}, {&a, &b, cls, p, p}, {&b, &a, cls, p, p}};
        for (unsigned i = 0; i < 4; i++)
            CHECK_FATAL(commit_crime, &twice[i], "double free", p);
        CHECK_FATAL(commit_in_one_batch, &twice[0], "double free", p);
        const unsigned next = cls % (HK_CLASS_FIXED - 1) + 1;
        crime_t inside = {&a, &a, cls, NULL, p + 4}, other = {&a, &a, next, NULL, p};
        CHECK_FATAL(commit_crime, &inside, "invalid free", p + 4);
        CHECK_FATAL(commit_crime, &other, "invalid free", p);
        if (tail < hk_slab_of(p)->base + hk_classes[cls].slices * HK_SLICE) {
            crime_t behind = {&a, &a, cls, NULL, tail};
            CHECK_FATAL(commit_crime, &behind, "invalid free", tail);
        }
        crime_t nobodys = {&a, &b, cls, NULL, (void *)&a};
        CHECK_FATAL(commit_crime, &nobodys, "invalid free", &a);
        hk_heap_give(&a, cls, blocks, n);
        hk_heap_collect(&a);
        crime_t late = {&a, &a, cls, NULL, p}; /* after its slab went back */
        CHECK_FATAL(commit_crime, &late, "invalid free", p);
    }
}

/* In a sparse class, the slab that was full must serve first, so that emptier ones become empty. A take
 * that needs a new slab must end the class's sparse state. */
static void sparse_classes_gather(void) {
    enum { SLABS = 12 };
    static void *blocks[MOST];
    const unsigned cls = hk_class_of(1024), per = hk_classes[cls].blocks;
    const uint64_t bit = (uint64_t)1 << cls;
    for (unsigned sparse = 0; sparse < 2; sparse++) {
        void *last, *got;
        hk_store_relaxed(&hk_heap_sparse, UINT64_MAX);
        take(&a, cls, blocks, SLABS * per);
        CHECK_EQ(hk_load_relaxed(&hk_heap_sparse), ~bit);
        for (unsigned i = 0; i < SLABS - 1; i++)
            hk_heap_give(&a, cls, &blocks[i * per], 2);
        hk_store_relaxed(&hk_heap_sparse, sparse != 0 ? bit : 0);
        last = blocks[(SLABS - 1) * per];
        hk_heap_give(&a, cls, &blocks[(SLABS - 1) * per], 1);
        CHECK_EQ(hk_heap_take(&a, cls, &got, 1), 1);
        CHECK_EQ(got == last, sparse != 0);
        hk_heap_give(&a, cls, &got, 1);
        for (unsigned i = 0; i < SLABS; i++) {
            const unsigned gone = i < SLABS - 1 ? 2 : 1;
            hk_heap_give(&a, cls, &blocks[i * per + gone], per - gone);
        }
        hk_heap_collect(&a);
    }
    hk_store_relaxed(&hk_heap_sparse, (uint64_t)0);
}

int main(void) {
    hak_free(hak_malloc(1));
    hk_heap_init(&a);
    hk_heap_init(&b);
    hk_heap_init(&orphan);
    take_and_give();
    batches_across_slabs();
    remote_frees();
    retired_slabs_serve_any_class();
    orphans_are_adopted();
    sparse_classes_gather();
    random_traffic();
    double_and_invalid_frees_abort();
    return 0;
}
