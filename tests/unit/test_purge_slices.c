/* Purging free slices: the right ones are claimed, slices with memory are allocated before those without, and slices
 * given back and used again are counted. */
#include "backend/slab.h"

#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/purger.h"
#include "pool_stats.h"
#include "superslabs.h"

static size_t page;

static uint32_t claim_slices(hk_slab_t *whole, hk_claim_t which, hk_os_range_t *ranges,
                             unsigned *count) {
    uint32_t claimed = hk_pool_claim(hk_map_owner(whole->base), which, ranges, count);
    uint32_t covered = 0;
    CHECK(*count <= HK_SLICES / 2);
    for (unsigned i = 0; i < *count; i++)
        for (size_t at = 0; at < ranges[i].bytes; at += HK_SLICE)
            covered |= 1u << ((char *)ranges[i].start + at - whole->base) / (ptrdiff_t)HK_SLICE;
    CHECK_EQ(covered, claimed);
    return claimed;
}

static bool unclaim_slices(hk_slab_t *whole, uint32_t claimed, uint32_t purged, bool lazily) {
    bool seen = false;
    CHECK_EQ(hk_pool_unclaim(hk_map_owner(whole->base), claimed, purged, lazily, &seen),
             hk_ones(purged) * HK_SLICE);
    return seen;
}

/* A claim takes the free slices that have memory; an aged claim, those not used since the claim before. No run gets a
 * claimed slice. Purged slices read as zero and are not purged twice; lazily purged ones may keep their contents. */
static void slices_are_claimed(void) {
    hk_os_range_t ranges[HK_SLICES];
    unsigned count;
    hk_slab_t *whole = own_superslab(false), *runs[HK_SLICES] = {NULL};
    const uint32_t others = ~1u;
    CHECK_EQ(claim_slices(whole, HK_CLAIM_AGED, ranges, &count), 0); /* none is aged yet */
    CHECK(unclaim_slices(whole, 0, 0, false));                       /* but seen now */
    hk_slab_t *touched = take_in(whole, 1, 0);
    const uint32_t bit = 1u << touched->first;
    hk_pool_give(touched);
    size_t carved = pool_stats().carved;
    CHECK_EQ(claim_slices(whole, HK_CLAIM_AGED, ranges, &count), others & ~bit);
    CHECK_EQ(pool_stats().carved, carved);  /* claimed slices do not count as carved */
    hk_slab_t *only = take_in(whole, 1, 0); /* the one not claimed */
    CHECK(only == touched);
    hk_slab_t *elsewhere = hk_pool_take(1, 0, 1);
    CHECK(hk_map_owner(elsewhere->base) != hk_map_owner(whole->base));
    hk_pool_give(elsewhere);
    hk_pool_give(only);
    /* as if the system refused; the slice left was used since */
    CHECK(!unclaim_slices(whole, others & ~bit, 0, false));
    CHECK_EQ(claim_slices(whole, HK_CLAIM_DIRTY, ranges, &count), others);
    advise_each(ranges, count, HK_PURGE);
    CHECK(!unclaim_slices(whole, others, others, false));
    CHECK_EQ(claim_slices(whole, HK_CLAIM_DIRTY, ranges, &count),
             0); /* all of them are purged already */
    CHECK(!unclaim_slices(whole, 0, 0, false));
    for (unsigned i = 1; i < HK_SLICES; i++) {
        runs[i] = take_in(whole, 1, 0);
        CHECK(runs[i]->zeroed && reads_as(runs[i]->base, HK_SLICE, 0));
        memset(runs[i]->base, 0x5a, HK_SLICE);
    }
    for (unsigned i = 1; i < HK_SLICES; i += 2)
        hk_pool_give(runs[i]);
    uint32_t odd = claim_slices(whole, HK_CLAIM_DIRTY, ranges, &count);
    CHECK_EQ(count, HK_SLICES / 2);
    CHECK_EQ(__builtin_popcount(odd), HK_SLICES / 2);
    advise_each(ranges, count, HK_RESET);
    CHECK(!unclaim_slices(whole, odd, odd, true));
    hk_slab_t *slab = take_in(whole, 1, 1);
    CHECK(hk_load_relaxed(&slab->lazy) != 0);
    CHECK_EQ(hk_load_relaxed(&slab->lazy), hk_load_relaxed(&slab->clean));
    hk_pool_give(slab);
    odd = claim_slices(whole, HK_CLAIM_DIRTY, ranges,
                       &count); /* the slab's own slice counts as used */
    CHECK(unclaim_slices(whole, odd, odd, true) == false && odd == 1u << slab->first);
    /* lazily purged slices need no second purge */
    CHECK_EQ(claim_slices(whole, HK_CLAIM_DIRTY, ranges, &count), 0);
    unclaim_slices(whole, 0, 0, false);
    for (unsigned i = 1; i < HK_SLICES; i += 2) {
        runs[i] = take_in(whole, 1, 0);
        CHECK(!runs[i]->zeroed); /* it may still have its old contents */
        CHECK(reads_as(runs[i]->base, HK_SLICE, 0x5a) || reads_as(runs[i]->base, page, 0));
    }
    for (unsigned i = 1; i < HK_SLICES; i++)
        hk_pool_give(runs[i]);
    const uint32_t all = claim_slices(whole, HK_CLAIM_DIRTY, ranges, &count);
    advise_each(ranges, count, HK_RESET);
    unclaim_slices(whole, all, all, true);
    CHECK_EQ(claim_slices(whole, HK_CLAIM_LAZY_TOO, ranges, &count), all); /* but a trim does */
    unclaim_slices(whole, all, all, false);
    CHECK_EQ(claim_slices(whole, HK_CLAIM_LAZY_TOO, ranges, &count), 0);
    unclaim_slices(whole, 0, 0, false);
    hk_pool_give(whole);
    clear_the_way();
}

/* Slices with memory are taken before purged ones, and before lazily purged ones. */
static void slices_with_memory_come_first(void) {
    for (int lazily = 0; lazily < 2; lazily++) {
        hk_os_range_t ranges[HK_SLICES];
        unsigned count;
        hk_slab_t *whole = own_superslab(false), *runs[HK_SLICES];
        for (unsigned i = 1; i < HK_SLICES; i++)
            runs[i] = take_in(whole, 1, 0);
        hk_pool_give(runs[3]);
        uint32_t three = claim_slices(whole, HK_CLAIM_DIRTY, ranges, &count);
        CHECK_EQ(count, 1);
        advise_each(ranges, count, lazily ? HK_RESET : HK_PURGE);
        unclaim_slices(whole, three, three, lazily);
        hk_pool_give(runs[20]);
        CHECK(take_in(whole, 1, 0) == runs[20]);
        for (unsigned i = 1; i < HK_SLICES; i++)
            if (i != 3)
                hk_pool_give(runs[i]);
        hk_pool_give(whole);
        clear_the_way();
    }
}

/* A large run that was purged lazily may keep its contents, so calloc zeroes it. */
static void calloc_zeroes_what_was_purged_lazily(void) {
    enum { BLOCKS = 24, BYTES = 700 * 1000 };
    static char *blocks[BLOCKS];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            memset(blocks[i] = hak_malloc(BYTES), 0x77, BYTES);
        for (unsigned i = 0; i < BLOCKS; i++)
            hak_free(blocks[i]);
        CHECK(purge_each(HK_RESET, false) > (size_t)BYTES);
        for (unsigned i = 0; i < BLOCKS; i++) {
            blocks[i] = hak_calloc(1, BYTES);
            CHECK(reads_as(blocks[i], BYTES, 0));
        }
        for (unsigned i = 0; i < BLOCKS; i++)
            hak_free(blocks[i]);
    }
}

/* Only slices that were given back count as retaken when they are handed out again. */
static void what_is_retaken_is_counted(void) {
    hk_slab_t *run = own_superslab(false);
    uint64_t before = hk_load_relaxed(&hk_pool_retaken);
    CHECK(hk_pool_resize(run, 3));
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), before);
    purge_each(HK_PURGE, false);
    before = hk_load_relaxed(&hk_pool_retaken);
    CHECK(hk_pool_resize(run, 7) && hk_pool_resize(run, 5) && hk_pool_resize(run, 7));
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), before + 4 * HK_SLICE);
    hk_pool_give(run);
}

/* A fresh slice that got memory from a huge page is given back, although no block ever used it. Nearly all memory is
 * in use and written to, so that the next superslab asks for a huge page. */
static void the_rest_of_a_huge_page_goes_back(void) {
    enum { RUNS = 16 };
    hk_slab_t *runs[RUNS];
    purge_all(); /* the purge below finds only the fresh slices */
    for (unsigned i = 0; i < RUNS; i++) {
        CHECK((runs[i] = hk_pool_take(HK_SLICES - 1, 0, 1)) != NULL);
        memset(runs[i]->base, 1, (HK_SLICES - 1) * HK_SLICE);
    }
    CHECK(purge_all() >= HK_SLICE);
    for (unsigned i = 0; i < RUNS; i++)
        hk_pool_give(runs[i]);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_policy_apply(); /* nobody else purges */
    hak_free(hak_malloc(1));
    page = hk_os_page_size();
    slices_are_claimed();
    slices_with_memory_come_first();
    calloc_zeroes_what_was_purged_lazily();
    what_is_retaken_is_counted();
    the_rest_of_a_huge_page_goes_back();
    return 0;
}
