/* Superslabs and the pool of slices. The process's own blocks lie in the same pool, so the tests work in superslabs
 * that they took whole. */
#include "backend/superslab.h"

#include "backend/pagemap.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "backend/superslab_own.h"
#include "base/counters.h"
#include "check.h"
#include "hakmem/hakmem.h"
#include "pool_stats.h"
#include "purge_all.h"

static hk_slab_t *take(unsigned slices) {
    hk_slab_t *run = hk_pool_take(slices, 0, 1);
    CHECK(run != NULL);
    return run;
}

static void check_run(const hk_slab_t *run, unsigned slices) {
    CHECK_EQ(run->slices, slices);
    CHECK_EQ((uintptr_t)run->base % HK_SLICE, 0);
    for (unsigned i = 0; i < slices; i++) {
        const char *slice = run->base + i * HK_SLICE;
        CHECK_EQ(hk_map_kind(slice), i == 0 ? HK_KIND_LARGE : HK_KIND_INTERIOR);
        CHECK(hk_slab_of(slice) == run && hk_slab_of(slice + HK_SLICE - 1) == run);
    }
}

static bool reads_as_zero(const char *p, size_t bytes) {
    return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0;
}

/* A superslab of which the test holds slice 0 alone; the other 31 have been written to. */
static hk_slab_t *dirty_superslab(void) {
    hk_slab_t *run = take(HK_SLICES);
    memset(run->base, 0xaa, HK_UNIT);
    CHECK(hk_pool_resize(run, 1));
    return run;
}

static void runs_of_every_length(void) {
    for (unsigned n = 1; n <= HK_SLICES; n++) {
        pool_stats_t before = pool_stats();
        hk_slab_t *run = take(n);
        pool_stats_t during = pool_stats();
        check_run(run, n);
        CHECK_EQ(during.carved - before.carved, n * HK_SLICE);
        CHECK_EQ(during.active - before.active, n * HK_SLICE);
        CHECK_EQ(during.mapped, during.superslabs * HK_UNIT);
        memset(run->base, 0x55, n * HK_SLICE);
        char *base = run->base;
        hk_pool_give(run);
        for (unsigned i = 0; i < n; i++)
            CHECK(hk_map_kind(base + i * HK_SLICE) == HK_KIND_FREE ||
                  hk_map_kind(base + i * HK_SLICE) == HK_KIND_FOREIGN);
        CHECK_EQ(pool_stats().carved, before.carved);
        CHECK_EQ(pool_stats().active, before.active);
    }
}

static void slabs_of_every_class(void) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        const hk_class_t *c = &hk_classes[cls];
        size_t active = pool_stats().active;
        hk_slab_t *slab = hk_pool_take(c->slices, cls, 1);
        CHECK(slab != NULL);
        CHECK(hk_load_relaxed(&slab->owner) == NULL && !slab->listed);
        CHECK_EQ(hk_load_relaxed(&slab->free), c->blocks);
        CHECK_EQ(slab->cls, cls);
        for (unsigned i = 0; i < HK_SLAB_MAX_BLOCKS && i < (c->blocks + 63u) / 64 * 64; i++)
            CHECK_EQ(slab->bits[i / 64] >> i % 64 & 1, i < c->blocks);
        for (unsigned w = 0; w < 64; w++)
            CHECK_EQ(slab->summary >> w & 1, w * 64 < c->blocks);
        for (unsigned i = 0; i < c->slices; i++) {
            CHECK_EQ(hk_map_kind(slab->base + i * HK_SLICE), cls);
            CHECK(hk_slab_of(slab->base + i * HK_SLICE) == slab);
        }
        CHECK_EQ(pool_stats().active, active); /* no block of it is in use */
        hk_pool_give(slab);
    }
}

/* All slices of a superslab are handed out, lowest first, before another superslab is used; freed slices are reused in
 * the same order. */
static void exhaustion_and_reuse(void) {
    hk_slab_t *runs[HK_SLICES], *other;
    runs[0] = dirty_superslab();
    char *base = runs[0]->base;
    for (unsigned i = 1; i < HK_SLICES; i++) {
        runs[i] = take(1);
        CHECK(runs[i]->base == base + i * HK_SLICE);
    }
    other = take(1);
    CHECK(other->base < base || other->base >= base + HK_UNIT);
    hk_pool_give(other);
    static const unsigned holes[] = {17, 5, 30};
    for (unsigned i = 0; i < 3; i++)
        hk_pool_give(runs[holes[i]]);
    CHECK((runs[5] = take(1))->base == base + 5 * HK_SLICE);
    CHECK((runs[17] = take(1))->base == base + 17 * HK_SLICE);
    CHECK((runs[30] = take(1))->base == base + 30 * HK_SLICE);
    /* holes that join serve a longer run; single ones do not */
    hk_pool_give(runs[9]);
    hk_pool_give(runs[12]);
    hk_pool_give(runs[11]);
    hk_slab_t *pair = take(2);
    CHECK(pair->base == base + 11 * HK_SLICE);
    check_run(pair, 2);
    hk_pool_give(pair);
    for (unsigned i = 0; i < HK_SLICES; i++)
        if (i != 9 && i != 11 && i != 12)
            hk_pool_give(runs[i]);
}

static void resizing(void) {
    hk_slab_t *run = dirty_superslab();
    char *base = run->base;
    size_t carved = pool_stats().carved;
    CHECK(hk_pool_resize(run, 8));
    check_run(run, 8);
    CHECK_EQ(pool_stats().carved, carved + 7 * HK_SLICE);
    CHECK(hk_pool_resize(run, 8));
    CHECK(hk_pool_resize(run, 3));
    check_run(run, 3);
    CHECK_EQ(hk_map_kind(base + 3 * HK_SLICE), HK_KIND_FREE);
    CHECK_EQ(hk_map_kind(base + 7 * HK_SLICE), HK_KIND_FREE);
    hk_slab_t *neighbour = take(5);
    CHECK(neighbour->base == base + 3 * HK_SLICE);
    CHECK(!hk_pool_resize(run, 4));
    check_run(run, 3);
    check_run(neighbour, 5);
    CHECK(!hk_pool_resize(neighbour, HK_SLICES - 2)); /* beyond the superslab's end */
    CHECK(hk_pool_resize(neighbour, HK_SLICES - 3));
    check_run(neighbour, HK_SLICES - 3);
    hk_pool_give(run);
    CHECK(hk_pool_resize(neighbour, 1));
    check_run(neighbour, 1);
    hk_pool_give(neighbour);
}

/* A run that grows counts fresh slices as touched, and used ones not. */
static void growth_is_counted(void) {
    hk_slab_t *run = dirty_superslab();
    const uint64_t before = hk_counted(touched);
    CHECK(hk_pool_resize(run, HK_SLICES));
    CHECK_EQ(hk_counted(touched), before);
    hk_pool_give(run);
    hk_pool_release_empty();
    hk_region_trim();
    hk_slab_t *two[] = {take(HK_SLICES - 1), take(HK_SLICES - 1)};
    run = two[two[0]->first != 0]; /* the run in a new superslab */
    const uint64_t then = hk_counted(touched);
    CHECK(run->zeroed && hk_pool_resize(run, HK_SLICES));
    CHECK_EQ(hk_counted(touched), then + HK_SLICE);
    hk_pool_give(two[0]);
    hk_pool_give(two[1]);
}

/* One wholly free superslab is kept at most; the others go back to the region. */
static void empty_superslabs_go_back(void) {
    hk_slab_t *a = take(HK_SLICES), *b = take(HK_SLICES), *c = take(HK_SLICES);
    char *bases[] = {a->base, b->base, c->base};
    hk_pool_release_empty();
    size_t superslabs = pool_stats().superslabs, live = hk_region_live();
    hk_pool_give(a);
    hk_pool_give(b);
    hk_pool_give(c);
    size_t gone = superslabs - pool_stats().superslabs, known = 0;
    CHECK_EQ(gone, 2);
    CHECK_EQ(live - hk_region_live(), gone * HK_UNIT);
    for (unsigned i = 0; i < 3; i++) {
        known += hk_slab_of(bases[i]) != NULL;
        CHECK(hk_map_kind(bases[i]) == HK_KIND_FREE || hk_map_kind(bases[i]) == HK_KIND_FOREIGN);
    }
    CHECK_EQ(known, 3 - gone);
    purge_all();
    for (unsigned i = 0; i < 3; i++)
        CHECK(hk_slab_of(bases[i]) == NULL);
}

/* hk_purge_all() asks before each superslab and pack whether to go on, and stops if not. */
static void all_is_purged_in_steps(void) {
    hk_slab_t *runs[3];
    for (unsigned i = 0; i < 3; i++)
        runs[i] = dirty_superslab();
    unsigned left = 0;
    CHECK(hk_purge_all(goes_on, &left) < HK_UNIT / 2);
    CHECK(pool_stats().free_dirty >= 3 * (HK_SLICES - 1) * HK_SLICE);
    left = 1;
    hk_purge_all(goes_on, &left);
    const size_t dirty = pool_stats().free_dirty;
    CHECK(dirty >= 2 * (HK_SLICES - 1) * HK_SLICE);
    left = UINT32_MAX;
    hk_purge_all(goes_on, &left);
    CHECK_EQ(pool_stats().free_dirty, 0);
    CHECK(UINT32_MAX - left > 3);
    for (unsigned i = 0; i < 3; i++)
        hk_pool_give(runs[i]);
}

/* `zeroed` is set only if the run reads as zero: not for slices used since they were fresh or purged. */
static void zeroed_is_truthful(void) {
    purge_all();
    hk_region_trim();
    hk_slab_t *fresh = take(HK_SLICES);
    CHECK(fresh->zeroed && reads_as_zero(fresh->base, HK_UNIT));
    hk_pool_give(fresh);

    hk_slab_t *first = dirty_superslab();
    char *second = first->base + HK_SLICE;
    hk_slab_t *run = take(4);
    CHECK(run->base == second && !run->zeroed);
    CHECK(!reads_as_zero(run->base, 4 * HK_SLICE));
    hk_pool_give(run);

    size_t dirty = pool_stats().free_dirty;
    CHECK(dirty >= (HK_SLICES - 1) * HK_SLICE);
    CHECK(purge_all() >= (HK_SLICES - 1) * HK_SLICE);
    CHECK_EQ(pool_stats().free_dirty, 0);
    CHECK(*(unsigned char *)first->base == 0xaa); /* the slice in use keeps its contents */
    run = take(1);
    CHECK(run->base == second && run->zeroed && reads_as_zero(run->base, HK_SLICE));
    memset(run->base, 0xaa, HK_SLICE);
    hk_pool_give(run);
    CHECK_EQ(pool_stats().free_dirty, HK_SLICE);
    run = take(4); /* one used slice and three fresh ones */
    CHECK(run->base == second && !run->zeroed);
    hk_pool_give(run);

    /* a slice that was grown over is dirty when it comes back */
    purge_all();
    CHECK(hk_pool_resize(first, 2));
    memset(second, 0xaa, HK_SLICE);
    CHECK(hk_pool_resize(first, 1));
    run = take(1);
    CHECK(run->base == second && !run->zeroed);
    hk_pool_give(run);
    hk_pool_give(first);

    /* a superslab that comes back out of the region's cache as well */
    purge_all();
    hk_slab_t *again = take(HK_SLICES);
    CHECK(!again->zeroed || reads_as_zero(again->base, HK_UNIT));
    hk_pool_give(again);
}

/* Runs aligned to several slices share superslabs, and the slices between them serve other runs. */
static void aligned_runs(void) {
    enum { MOST = 2 * HK_SLICES };
    for (unsigned align = 2; align < HK_SLICES; align *= 2)
        for (unsigned n = align - 1; n <= align + 1; n++) {
            hk_slab_t *runs[MOST], *between = NULL;
            const unsigned step = (n + align - 1) / align * align, each = HK_SLICES / step;
            const size_t before = pool_stats().superslabs;
            for (unsigned i = 0; i < 2 * each; i++) {
                CHECK((runs[i] = hk_pool_take(n, 0, align)) != NULL);
                CHECK_EQ((uintptr_t)runs[i]->base % (align * HK_SLICE), 0);
                check_run(runs[i], n);
            }
            CHECK(pool_stats().superslabs <= before + 2);
            CHECK(step == n || (between = hk_pool_take_mapped(1, 0, 1)) != NULL);
            if (between != NULL)
                hk_pool_give(between);
            for (unsigned i = 0; i < 2 * each; i++)
                hk_pool_give(runs[i]);
        }
}

/* A late remote free may still have to clear `pending`, so carving the slices anew does not touch it. */
static void carving_keeps_the_protocol_words(void) {
    hk_slab_t *first = dirty_superslab();
    hk_slab_t *slab = hk_pool_take(1, 1, 1);
    CHECK(slab->base == first->base + HK_SLICE);
    hk_store_relaxed(&hk_remote_of(slab)->pending, 1u);
    hk_pool_give(slab);
    CHECK(hk_pool_take(1, 2, 1) == slab);
    CHECK_EQ(hk_load_relaxed(&hk_remote_of(slab)->pending), 1);
    hk_store_relaxed(&hk_remote_of(slab)->pending, 0u);
    hk_pool_give(slab);
    hk_pool_give(first);
}

static void random_runs_add_up(void) {
    enum { RUNS = 200, STEPS = 20000 };
    static hk_slab_t *runs[RUNS];
    uint64_t state = 88172645463325252u;
    pool_stats_t before = pool_stats();
    size_t mine = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        hk_slab_t **run = &runs[chance_below(&state, RUNS)];
        unsigned n = 1 + chance_below(&state, chance_below(&state, 8) == 0 ? HK_SLICES : 6);
        if (*run == NULL) {
            *run = take(n);
            mine += n;
        } else if (n % 3 == 0) {
            unsigned old = (*run)->slices;
            if (hk_pool_resize(*run, n))
                mine = mine + n - old;
            else
                CHECK(n > old && (*run)->slices == old);
        } else {
            CHECK(*(hk_slab_t **)(*run)->base == *run);
            mine -= (*run)->slices;
            hk_pool_give(*run);
            *run = NULL;
        }
        if (*run != NULL)
            *(hk_slab_t **)(*run)->base = *run;
        if (step % 64 == 0) {
            pool_stats_t now = pool_stats();
            CHECK_EQ(now.carved - before.carved, mine * HK_SLICE);
            CHECK(now.carved + now.free_dirty <= now.mapped);
        }
    }
    for (unsigned i = 0; i < RUNS; i++)
        if (runs[i] != NULL) {
            check_run(runs[i], runs[i]->slices);
            hk_pool_give(runs[i]);
        }
    CHECK_EQ(pool_stats().carved, before.carved);
    CHECK(pool_stats().superslabs <= before.superslabs + 1);
}

/* A superslab with holes that becomes empty while a part of it is claimed goes back when the claim ends. */
static void ends_while_claimed(void *unused) {
    enum { MOST = 4 * HK_SLICES };
    hk_slab_t *slabs[MOST], *last = NULL, *other = NULL;
    hk_os_range_t ranges[HK_SLICES];
    unsigned n = 0, count;
    (void)unused;
    hk_region_scatter(1);
    for (; n < MOST && other == NULL; n++) {
        CHECK((slabs[n] = hk_pool_take(1, 1, 1)) != NULL);
        hk_superslab_t *ss = hk_map_owner(slabs[n]->base);
        if (ss->holes == 0)
            continue;
        *(last == NULL ? &last : &other) = slabs[n];
    }
    CHECK(other != NULL && hk_map_owner(last->base) == hk_map_owner(other->base));
    hk_superslab_t *ss = hk_map_owner(last->base);
    hk_pool_give(other);
    const uint32_t claimed = hk_pool_claim(ss, false, ranges, &count);
    CHECK(claimed != 0);
    hk_pool_give(last);
    CHECK(ss->base != NULL);
    bool seen = false;
    hk_pool_unclaim(ss, claimed, 0, false, &seen);
    CHECK(ss->base == NULL);
    _exit(0);
}

static void holes_do_not_keep_a_superslab(void) {
    static child_t child;
    child_run(&child, ends_while_claimed, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

int main(void) {
    hak_free(hak_malloc(1));
#ifndef __GLIBC__ /* pthread_atfork takes a block, too: fills its superslab */
    take(HK_SLICES - 2);
#endif
    runs_of_every_length();
    slabs_of_every_class();
    exhaustion_and_reuse();
    resizing();
    growth_is_counted();
    empty_superslabs_go_back();
    all_is_purged_in_steps();
    zeroed_is_truthful();
    carving_keeps_the_protocol_words();
    aligned_runs();
    random_runs_add_up();
    holes_do_not_keep_a_superslab();
    return 0;
}
