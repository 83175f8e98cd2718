/* Tails of large blocks, the pages behind a block's last page: they are not usable, are purged once the block is old,
 * and stay marked as purged while blocks come, go and change their sizes. */
#include "backend/heap.h"

#include <stdio.h>

#include "backend/large.h"
#include "backend/superslab_own.h"
#include "base/counters.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/purger.h"
#include "superslabs.h"

enum { SLICES = 3, USED = 2 * HK_SLICE + 300 };

static hk_heap_t heap;
static size_t page, tail; /* tail: bytes behind the last page of USED bytes */

static char *take(size_t n) {
    size_t dirty;
    char *p = hk_large_alloc(&heap, n, 16, &dirty);
    CHECK(p != NULL);
    return p;
}

static size_t give(char *p) { return hk_large_free(&heap, p, HK_KIND_LARGE); }

/* A block of USED bytes in slices that a longer block has filled; no huge page backs them. */
static char *block_in_used_slices(void) {
    hk_stash_clear(&heap.stash);
    char *p = take(SLICES * HK_SLICE);
    hk_os_range_t whole;
    hk_pool_rule_out_huge_pages(hk_map_owner(p), &whole);
    CHECK_EQ(hk_os_advise(whole.start, whole.bytes, HK_NO_HUGE_PAGES), 0);
    memset(p, 0x5a, SLICES * HK_SLICE);
    give(p);
    CHECK(take(USED) == p);
    CHECK(reads_as(p, SLICES * HK_SLICE, 0x5a));
    return p;
}

static size_t purge_of(const void *p, bool aged) {
    for (hk_pool_cursor_t cursor = {0}; hk_pool_next(&cursor);)
        if (cursor.superslab == hk_map_owner(p))
            return hk_purge_tails(&cursor, HK_PURGE, aged);
    CHECK(false);
    return 0;
}

static size_t mark(void) {
    hk_pool_free_t sum = {.marks = true};
    for (hk_superslab_t *at = NULL; hk_pool_add_free(&at, &sum);)
        continue;
    return sum.tails;
}

static size_t marked(void) {
    hk_pool_free_t sum = {0};
    for (hk_superslab_t *at = NULL; hk_pool_add_free(&at, &sum);)
        continue;
    return sum.tails;
}

static bool is_cut(const char *p) {
    return reads_as(p, SLICES * HK_SLICE - tail, 0x5a) &&
           reads_as(p + SLICES * HK_SLICE - tail, tail, 0);
}

static void what_is_usable_ends_with_a_page(void) {
    for (size_t n = HK_MID_MAX + 1; n <= HK_UNIT; n += n / 3) {
        char *p = take(n);
        CHECK_EQ(hk_large_usable(p, HK_KIND_LARGE), hk_align_up(n, page));
        give(p);
    }
    hk_stash_clear(&heap.stash);
}

/* A tail is purged once, and only if a look has marked it before. */
static void it_goes_once_it_is_old(void) {
    char *p = block_in_used_slices();
    CHECK_EQ(purge_of(p, true), 0);
    CHECK(mark() >= tail && marked() >= tail);
    CHECK(reads_as(p, SLICES * HK_SLICE, 0x5a));
    CHECK_EQ(purge_of(p, true), tail);
    CHECK(is_cut(p));
    mark();
    CHECK_EQ(purge_of(p, true), 0);
    give(p);
}

/* A block that was freed and allocated again since the mark counts as new: its tail is not purged. */
static void what_comes_and_goes_stays(void) {
    char *p = block_in_used_slices();
    for (unsigned i = 0; i < 5; i++) {
        purge_of(p, true);
        mark();
        give(p);
        CHECK(take(USED) == p);
    }
    CHECK(reads_as(p, SLICES * HK_SLICE, 0x5a));
    give(p);
}

/* A block that grows within its last slice has no tail any more; one that shrinks has another tail. */
static void what_has_grown_keeps_all(void) {
    char *p = block_in_used_slices();
    CHECK(hk_large_resize(&heap, p, HK_KIND_LARGE, USED + tail / 2) == p);
    CHECK_EQ(hk_large_usable(p, HK_KIND_LARGE), SLICES * HK_SLICE);
    mark(), purge_of(p, true);
    CHECK(reads_as(p, SLICES * HK_SLICE, 0x5a));
    CHECK(hk_large_resize(&heap, p, HK_KIND_LARGE, HK_SLICE + 1) == p);
    CHECK_EQ(hk_large_usable(p, HK_KIND_LARGE), HK_SLICE + page);
    mark(), purge_of(p, true);
    CHECK(reads_as(p, HK_SLICE + page, 0x5a));
    CHECK(page == HK_SLICE || reads_as(p + HK_SLICE + page, HK_SLICE - page, 0));
    give(p);
}

/* While a tail is claimed, the block cannot be resized, and a free puts the block aside until the claim ends. */
static void nobody_gets_what_is_held(void) {
    hk_os_range_t ranges[HK_SLICES];
    unsigned count;
    char *p = block_in_used_slices();
    hk_superslab_t *ss = hk_map_owner(p);
    const uint32_t claimed = hk_pool_claim_tails(ss, false, ranges, &count);
    CHECK(count >= 1 && claimed != 0);
    CHECK_EQ(hk_large_usable(p, HK_KIND_LARGE), SLICES * HK_SLICE - tail);
    CHECK(hk_large_resize(&heap, p, HK_KIND_LARGE, USED + tail / 2) == NULL);
    CHECK(hk_large_resize(&heap, p, HK_KIND_LARGE, HK_SLICE) == NULL);
    CHECK_EQ(give(p), 0);
    CHECK_EQ(hk_map_kind(p), HK_KIND_FREE);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(hk_load_seq(&hk_large_aside));
        CHECK_EQ(hk_large_free_late(), 0);
    }
    hk_pool_unclaim_tails(ss, claimed, 0, false);
    CHECK_EQ(hk_large_free_late(), SLICES * HK_SLICE);
    CHECK(!hk_load_seq(&hk_large_aside));
}

/* A purged tail is remembered when its block is freed: the run goes on no stash, and counts as retaken when it is used
 * again. */
static void what_is_gone_stays_known(void) {
    bool seen = false;
    char *p = block_in_used_slices();
    mark(), purge_of(p, true);
    CHECK(is_cut(p));
    CHECK_EQ(give(p), SLICES * HK_SLICE); /* all bytes reported: to the pool */
    CHECK(heap.stash.held == 0);
    hk_pool_cursor_t cursor = {0};
    while (hk_pool_next(&cursor) && cursor.superslab != hk_map_owner(p))
        continue;
    const uint64_t touched = hk_counted_ever(touched), retaken = hk_load_relaxed(&hk_pool_retaken);
    CHECK(take(USED) == p);
    CHECK_EQ(hk_counted_ever(touched), touched + tail);
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), retaken + tail);
    give(p);
    hk_stash_clear(&heap.stash);
    CHECK(hk_purge_superslab(&cursor, HK_PURGE, false, &seen) >= SLICES * HK_SLICE);
}

/* A purged tail also counts as retaken when its block grows into it. */
static void what_has_grown_counts(void) {
    char *p = block_in_used_slices();
    mark(), purge_of(p, true);
    const uint64_t touched = hk_counted_ever(touched), retaken = hk_load_relaxed(&hk_pool_retaken);
    CHECK(hk_large_resize(&heap, p, HK_KIND_LARGE, USED + tail / 2) == p);
    CHECK_EQ(hk_counted_ever(touched), touched + tail);
    CHECK_EQ(hk_load_relaxed(&hk_pool_retaken), retaken + tail);
    CHECK(is_cut(p));
    give(p);
}

/* The tail of a block in fresh slices has no memory to give back. */
static void fresh_ones_are_clean(void) {
    hk_slab_t *whole = own_superslab(true);
    hk_stash_clear(&heap.stash);
    char *p = take(USED);
    CHECK(hk_map_owner(p) == hk_map_owner(whole->base));
    memset(p, 1, USED);
    CHECK_EQ(purge_of(p, false), 0);
    give(p);
    hk_stash_clear(&heap.stash);
    hk_pool_give(whole);
}

/* No tail is claimed where a huge page may back it: purging would split the huge page. */
static void huge_pages_stay(void) {
    char *p = block_in_used_slices();
    hk_os_range_t ranges[HK_SLICES];
    unsigned count;
    hk_superslab_t *ss = hk_map_owner(p);
    ss->no_huge_pages = false;
    CHECK_EQ(hk_pool_claim_tails(ss, false, ranges, &count), 0);
    CHECK_EQ(count, 0);
    ss->no_huge_pages = true;
    give(p);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_policy_apply(); /* nobody else purges */
    hak_free(hak_malloc(1));
    page = hk_os_page_size();
    tail = SLICES * HK_SLICE - hk_align_up(USED, page);
    what_is_usable_ends_with_a_page();
    if (tail == 0) {
        puts("SKIPPED: a page is a slice, and there are no tails");
        return UNIT_SKIPPED;
    }
    fresh_ones_are_clean();
    it_goes_once_it_is_old();
    what_comes_and_goes_stays();
    what_has_grown_keeps_all();
    nobody_gets_what_is_held();
    what_is_gone_stays_known();
    what_has_grown_counts();
    huge_pages_stay();
    return 0;
}
