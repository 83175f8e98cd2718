/* Plants one defect at a time in superslabs, slabs, heaps, large blocks and purging: the named assertion must fail. */
#include "backend/heap.h"
#include "backend/large.h"
#include "backend/pack.h"
#include "backend/region.h"
#include "backend/slab.h"
#include "backend/superslab_own.h"
#include "plants.h"
#include "policy/look.h"
#include "superslabs.h"

#if HK_DEBUG

static hk_heap_t a, b;
static const unsigned CLS = 21; /* 1024 bytes: 64 blocks in one slice */
enum { BLOCKS = 64 };

/* ---- superslabs ---- */

static hk_superslab_t *superslab_of(const hk_slab_t *slab) { return hk_map_owner(slab->base); }

/* Often enough for the walker to check the whole pool. */
static void take_and_give(hk_slab_t *superslab) {
    for (unsigned i = 0; i < 64; i++)
        hk_pool_give(take_in(superslab, 1, 0));
}

static void run_longer_than_its_slices(bool planted) {
    hk_slab_t *run = own_superslab(false);
    run->slices = planted ? 2 : 1;
    take_and_give(run);
}

static void slice_of_another_run(bool planted) {
    hk_slab_t *run = own_superslab(false);
    CHECK(hk_pool_resize(run, 4));
    superslab_of(run)->head[2] = planted ? 2 : 0;
    take_and_give(run);
}

static void free_slice_in_use(bool planted) {
    hk_slab_t *run = own_superslab(false);
    CHECK(hk_pool_resize(run, 4));
    hk_slab_t *other = take_in(run, 1, 0);
    superslab_of(run)->free |= planted ? 1u << 3 : 0;
    hk_pool_give(other);
}

static void fresh_slice_in_use(bool planted) {
    hk_slab_t *run = own_superslab(false);
    superslab_of(run)->fresh |= planted ? 1 : 0;
    take_and_give(run);
}

static void superslab_on_the_wrong_list(bool planted) {
    hk_slab_t *run = own_superslab(false), *other = own_superslab(false);
    CHECK(hk_pool_resize(run, 4) && hk_pool_resize(other, 9));
    superslab_of(run)->list -= planted;
    take_and_give(other);
}

static void totals_that_are_wrong(bool planted) {
    hk_slab_t *run = own_superslab(false), *full = hk_pool_take(HK_SLICES, 0, 1);
    CHECK(full != NULL && hk_pool_resize(full, HK_SLICES - 1));
    hk_slab_t *last = take_in(full, 1, 0);
    superslab_of(last)->whole &= planted ? UINT32_MAX >> 1 : UINT32_MAX;
    take_and_give(run);
}

static void slices_that_are_not_claimed(bool planted) {
    hk_os_range_t ranges[HK_SLICES];
    unsigned count;
    hk_slab_t *run = own_superslab(false);
    uint32_t claimed = hk_pool_claim(hk_map_owner(run->base), false, ranges, &count);
    bool seen = false;
    hk_pool_unclaim(hk_map_owner(run->base), planted ? claimed | 1 : claimed, 0, false, &seen);
}

static void slab_that_has_an_owner(bool planted) {
    hk_slab_t *slab = hk_pool_take(1, CLS, 1);
    hk_store_relaxed(&slab->owner, planted ? &a : NULL);
    hk_pool_give(slab);
}

static void slab_with_a_block_in_use(bool planted) {
    void *block;
    hk_slab_t *slab = hk_pool_take(1, CLS, 1);
    if (planted)
        hk_slab_take(slab, &block + 1, 1);
    hk_pool_give(slab);
}

static void slab_with_a_lost_remote_free(bool planted) {
    hk_slab_t *slab = hk_pool_take(1, CLS, 1);
    hk_store_relaxed(hk_remote_bits(slab, &hk_classes[slab->cls]), planted ? 8u : 0u);
    hk_pool_give(slab);
}

/* ---- slabs ---- */

static void bit_that_is_not_counted(bool planted) {
    void *blocks[3];
    hk_slab_t *slab = hk_pool_take(1, CLS, 1);
    hk_slab_take(slab, blocks + 2, 2);
    slab->bits[0] |= planted ? 1 : 0;
    hk_slab_take(slab, blocks + 3, 1);
}

static void page_clean_and_seen(bool planted) {
    void *block;
    hk_slab_t *slab = hk_pool_take(1, CLS, 1);
    hk_store_relaxed(&slab->clean, 2u);
    slab->seen = planted ? 2 : 4;
    slab->marked = true;
    hk_slab_take(slab, &block + 1, 1);
}

static void pages_that_are_not_claimed(bool planted) {
    hk_slab_t *slab = hk_pool_take(1, CLS, 1);
    static const uint16_t gone[HK_SLICES];
    hk_slab_mark_slices(slab, 0, 0, 0, gone);
    uint64_t pages = hk_slab_claim(slab, false);
    if (planted)
        slab->bits[0] |= 1;
    CHECK_EQ(hk_slab_unclaim(slab, pages, pages, false), BLOCKS);
}

/* ---- heaps ---- */

static void *blocks[3 * BLOCKS];

/* Three slabs of heap a, with one free block each. */
static void three_slabs(hk_slab_t *slabs[3]) {
    for (unsigned have = 0; have < 3 * BLOCKS;)
        have += hk_heap_take(&a, CLS, blocks + have, 3 * BLOCKS - have);
    for (unsigned i = 0; i < 3; i++) {
        slabs[i] = hk_slab_of(blocks[i * BLOCKS]);
        hk_heap_give(&a, CLS, &blocks[i * BLOCKS], 1);
    }
    CHECK(slabs[0] != slabs[1] && slabs[1] != slabs[2] && slabs[0] != slabs[2]);
}

static void ring_that_is_broken(bool planted) {
    hk_slab_t *slabs[3];
    three_slabs(slabs);
    if (planted)
        slabs[1]->prev = slabs[1];
    hk_heap_give(&a, CLS, &blocks[1], 1);
}

static void slab_of_another_heap_on_the_list(bool planted) {
    hk_slab_t *slabs[3];
    three_slabs(slabs);
    if (planted)
        hk_store_relaxed(&slabs[2]->owner, &b);
    hk_heap_give(&a, CLS, &blocks[1], 1);
}

static void slab_that_is_not_on_the_list(bool planted) {
    hk_slab_t *slabs[3];
    void *last[3];
    three_slabs(slabs);
    CHECK_EQ(hk_heap_take(&a, CLS, last, 3), 3);
    slabs[0]->listed = planted; /* although it is on no list: a ring by itself */
    slabs[0]->next = slabs[0]->prev = slabs[0];
    hk_heap_give(&a, CLS, &blocks[1], 1);
}

static void free_blocks_counted_wrong(bool planted) {
    hk_slab_t *slabs[3];
    three_slabs(slabs);
    hk_store_relaxed(&slabs[0]->free, (uint16_t)(1 + planted));
    hk_heap_give(&a, CLS, &blocks[1], 1);
}

static void pending_word_lost(bool planted) {
    hk_slab_t *slabs[3];
    three_slabs(slabs);
    hk_heap_give(&b, CLS, &blocks[1], 1);
    if (planted)
        hk_store_relaxed(&hk_remote_of(slabs[0])->pending, 0u);
    hk_heap_collect(&a);
}

static void remote_free_of_no_block(bool planted) {
    void *large[64];
    const unsigned cls = HK_CLASS_FIXED - 1; /* of which a slab holds 8 */
    CHECK(hk_heap_take(&a, cls, large, 2) == 2);
    hk_slab_t *slab = hk_slab_of(large[0]);
    hk_heap_give(&b, cls, large, 1);
    if (planted)
        hk_or_seq(hk_remote_bits(slab, &hk_classes[slab->cls]), (uint64_t)1 << 8);
    hk_heap_collect(&a);
}

static void orphaned_twice(bool planted) {
    hk_heap_set_orphan(&a, true);
    hk_heap_set_orphan(&a, planted);
}

static void collected_with_a_heap_locked(bool planted) {
    if (planted)
        hk_lock(&a.lock);
    hk_heap_collect_all(false, hk_stash_clear);
}

static void class_that_there_is_not(bool planted) {
    void *block;
    hk_heap_take(&a, planted ? 0 : CLS, &block, 1);
}

/* ---- blocks above 32 KiB ---- */

static void huge_block_without_its_inside(bool planted) {
    size_t dirty;
    char *p = hk_large_alloc(&a, 3 * HK_UNIT, 16, &dirty);
    CHECK(p != NULL);
    if (planted)
        hk_map_set(p + HK_SLICE, 1, HK_KIND_FREE);
    CHECK(hk_large_resize(&a, p, HK_KIND_HUGE, 2 * HK_UNIT + 1) == p);
}

static void huge_block_that_ends_anywhere(bool planted) {
    size_t dirty;
    char *p = hk_large_alloc(&a, 3 * HK_UNIT, 16, &dirty);
    CHECK(p != NULL);
    ((hk_range_t *)hk_map_owner(p))->bytes -= planted; /* its descriptor begins with the range */
    CHECK(hk_large_resize(&a, p, HK_KIND_HUGE, 2 * HK_UNIT + 1) == p);
}

static void grain_that_is_no_blocks(bool planted) {
    char *p = hk_pack_alloc(40000, 1), *q = hk_pack_alloc(40000, 1);
    CHECK(p != NULL && q != NULL);
    unsigned *used = (unsigned *)((char **)hk_map_owner(p) + 1); /* the field behind `base` */
    *used += planted;
    CHECK(hk_pack_free(p) >= 40000);
}

static void large_block_of_no_kind(bool planted) {
    size_t dirty;
    char *p = hk_large_alloc(&a, 100000, 16, &dirty);
    CHECK(p != NULL);
    hk_large_free(&a, p, planted ? HK_KIND_INTERIOR : HK_KIND_LARGE);
}

/* ---- purging ---- */

/* A cursor whose slabs are not the superslab's. */
static void slab_of_another_superslab(bool planted) {
    hk_slab_t *slabs[3], *run;
    bool seen = false, found = false;
    three_slabs(slabs);
    hk_heap_give(&a, CLS, blocks + 1, BLOCKS - 2);
    run = own_superslab(false); /* a superslab that was wholly free, so not theirs */
    for (hk_pool_cursor_t cursor = {0}; !found && hk_pool_next(&cursor);) {
        for (unsigned i = 0; i < cursor.count; i++)
            found |= cursor.slabs[i] == slabs[0];
        if (found && planted)
            cursor.superslab = hk_map_owner(run->base);
        if (found)
            hk_purge_superslab(&cursor, HK_PURGE, false, &seen);
    }
    CHECK(found);
}

static void purge_of_nothing(bool planted) {
    hk_pool_cursor_t cursor = {0};
    bool seen = false;
    CHECK(planted || hk_pool_next(&cursor));
    hk_purge_superslab(&cursor, HK_PURGE, false, &seen);
}

static void purger_let_go_twice(bool planted) {
    hk_lock(&hk_look_lock);
    hk_unlock(&hk_look_lock);
    if (planted)
        hk_unlock(&hk_look_lock);
}

/* ---- all of them ---- */

static const plant_t plants[] = {
    PLANT(run_longer_than_its_slices, "ss->head[i] == first"),
    PLANT(slice_of_another_run, "ss->head[i] == first"),
    PLANT(free_slice_in_use, "(run & ~carved) == 0"),
    PLANT(fresh_slice_in_use, "& ~ss->free) == 0"),
    PLANT(superslab_on_the_wrong_list, "ss->list == longest_run(ss->free)"),
    PLANT(totals_that_are_wrong, "bytes == hk_pool_mapped()"),
    PLANT(slices_that_are_not_claimed, "(ss->claimed & claimed) == claimed"),
    PLANT(slab_that_has_an_owner, "hk_load_relaxed(&slab->owner) == NULL"),
    PLANT(slab_with_a_block_in_use, "hk_load_relaxed(&slab->free) == hk_classes[slab->cls].blocks"),
    PLANT(slab_with_a_lost_remote_free, "hk_load_relaxed(&hk_remote_bits(slab, c)[w]) == 0"),
    PLANT(bit_that_is_not_counted, "free == hk_load_relaxed(&slab->free)"),
    PLANT(page_clean_and_seen, "(slab->seen & hk_load_relaxed(&slab->clean)) == 0"),
    PLANT(pages_that_are_not_claimed, "& hk_bits_in("),
    PLANT(ring_that_is_broken, "slab->next->prev == slab"),
    PLANT(slab_of_another_heap_on_the_list, "hk_load_relaxed(&slab->owner) == heap"),
    PLANT(slab_that_is_not_on_the_list, "found == slab->listed"),
    PLANT(free_blocks_counted_wrong, "free == hk_load_relaxed(&slab->free)"),
    PLANT(pending_word_lost, "hk_load_relaxed(&hk_remote_of(slab)->pending) == 1"),
    PLANT(remote_free_of_no_block, "bits >> (c->blocks - w * 64) == 0"),
    PLANT(orphaned_twice, "hk_load_relaxed(&heap->orphan) != orphan"),
    PLANT(collected_with_a_heap_locked, "hk_lock_may_take(HK_RANK_HEAP)"),
    PLANT(class_that_there_is_not, "cls != 0"),
    PLANT(huge_block_without_its_inside, "== HK_KIND_INTERIOR"),
    PLANT(huge_block_that_ends_anywhere, "hk_is_aligned(r->bytes, HK_SLICE)"),
    PLANT(grain_that_is_no_blocks, "pack->used == in_blocks"),
    PLANT(large_block_of_no_kind, "hk_large_is(kind)"),
    PLANT(slab_of_another_superslab, "hk_map_owner(slab->base) == cursor->superslab"),
    PLANT(purge_of_nothing, "cursor->superslab != NULL"),
    PLANT(purger_let_go_twice, "hk_load_relaxed(&lock->taken) == 1"),
};

/* Plants that need a slab of several OS pages. */
static bool needs_pages(const plant_t *plant) {
    return plant->run == page_clean_and_seen || plant->run == slab_of_another_superslab;
}

int main(void) {
    nobody_else_purges();
    hk_heap_init(&a);
    hk_heap_init(&b);
    for (unsigned i = 0; i < sizeof plants / sizeof *plants; i++)
        if (hk_os_page_size() != HK_SLICE || !needs_pages(&plants[i]))
            check_plant(plants[i]);
    return 0;
}

#else

int main(void) { return unit_skip("only a debug build has assertions"); }

#endif
