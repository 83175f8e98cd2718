/* Proves that the assertions of the boxes below the heaps can fail: locks, options, size classes,
 * the page map, ranges. */
#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "backend/sizeclass.h"
#include "backend/superslab.h"
#include "base/lock.h"
#include "base/worker.h"
#include "plants.h"
#include "stats/sections.h"

#if HK_DEBUG

/* ---- base, os ---- */

static void lock_given_back_twice(bool planted) {
    hk_lock_t lock = HK_LOCK_INIT(HK_RANK_HEAP);
    hk_lock(&lock);
    hk_unlock(&lock);
    if (planted)
        hk_unlock(&lock);
}

static void locks_in_the_wrong_order(bool planted) {
    hk_lock_t outer = HK_LOCK_INIT(planted ? HK_RANK_META : HK_RANK_HEAP);
    hk_lock_t inner = HK_LOCK_INIT(planted ? HK_RANK_HEAP : HK_RANK_META);
    hk_lock(&outer);
    hk_lock(&inner);
    hk_unlock(&inner);
    hk_unlock(&outer);
}

static void returns(void) {}

static void worker_started_with_a_lock_held(bool planted) {
    hk_lock_t lock = HK_LOCK_INIT(HK_RANK_CONFIG);
    if (planted)
        hk_lock(&lock);
    CHECK_EQ(hk_worker_start(returns), 0);
}

static void line_too_long(bool planted) {
    hk_line_t line = {0};
    if (planted)
        line.len = sizeof line.text;
    hk_line_str(&line, "x");
}

static void alignment_is_no_power_of_two(bool planted) {
    CHECK(hk_align_up(100, planted ? 48 : 64) != 0);
}

static void unmap_half_an_os_page(bool planted) {
    const size_t page = hk_os_page_size();
    char *p = hk_os_map(2 * page, page);
    CHECK(p != NULL);
    hk_os_unmap(p, planted ? page / 2 : 2 * page);
}

/* ---- config, stats ---- */

static void word_that_there_is_not(bool planted) {
    char text[32];
    hk_store_relaxed(&hk_config.lean_decommit, planted ? 7u : 1u);
    CHECK_EQ(hak_ctl("HAKMEM_SS_MEM_LEAN_DECOMMIT", NULL, text, sizeof text), 0);
}

static void number_out_of_range(bool planted) {
    char text[32];
    hk_store_relaxed(&hk_config.tcache_kb, planted ? 1u : 64u);
    CHECK_EQ(hak_ctl("HAKMEM_TCACHE_KB", NULL, text, sizeof text), 0);
}

static void end_of_an_entry_not_timed(bool planted) {
    static hk_section_timings_t timings;
    hk_entry_t entry = {.timings = planted ? NULL : &timings, .cpu = hk_os_cpu()};
    hk_section_end(&entry);
}

/* ---- size classes, page map, metadata ---- */

static void class_of_a_large_block(bool planted) {
    CHECK(hk_class_of(HK_MID_MAX + (size_t)planted) != 0);
}

static void kind_where_nothing_is_committed(bool planted) {
    char *nowhere = (char *)(uintptr_t)0x30000000000;
    CHECK(planted || hk_map_commit(nowhere, HK_SLICE));
    hk_map_set(nowhere, 1, HK_KIND_FREE);
}

static void kind_that_there_is_not(bool planted) {
    char *nowhere = (char *)(uintptr_t)0x30000000000;
    CHECK(hk_map_commit(nowhere, HK_SLICE));
    hk_map_set(nowhere, 1, planted ? HK_KIND_COUNT : HK_KIND_COUNT - 1);
}

static void kind_in_the_middle_of_a_slice(bool planted) {
    char *nowhere = (char *)(uintptr_t)0x30000000000;
    CHECK(hk_map_commit(nowhere, HK_SLICE));
    hk_map_set(nowhere + (planted ? 4096 : 0), 1, HK_KIND_FREE);
}

static hk_range_t take_range(size_t units) {
    hk_range_t range;
    size_t used;
    CHECK(hk_region_take(units * HK_UNIT, HK_UNIT, 0, &range, &used));
    return range;
}

static void maps_that_differ(bool planted) {
    hk_range_t range = take_range(2);
    uintptr_t slice = (uintptr_t)range.start >> HK_SLICE_SHIFT;
    hk_map_set(range.start, 1, HK_KIND_HUGE);
    if (planted)
        hk_store_relaxed(&hk_flat.bytes[slice], (uint8_t)1);
    hk_region_give(range);
}

static void written_behind_a_descriptor(bool planted) {
    char *p = hk_meta_alloc(HK_CACHE_LINE);
    CHECK(p != NULL);
    p[planted ? HK_CACHE_LINE : 0] = 1;
    CHECK(hk_meta_alloc(HK_CACHE_LINE) != NULL);
}

/* ---- regions ---- */

static void range_given_back_twice(bool planted) {
    hk_region_trim();
    hk_range_t range = take_range(2), other = take_range(4);
    hk_region_give(range);
    hk_region_give(planted ? range : other);
}

static void more_given_than_was_handed_out(bool planted) {
    hk_range_t range = take_range(1);
    range.bytes = planted ? (size_t)1 << 45 : HK_UNIT;
    hk_region_give(range);
}

static void range_that_begins_within_a_unit(bool planted) {
    hk_range_t range = take_range(2);
    range.start += planted ? HK_SLICE : HK_UNIT;
    range.bytes = HK_UNIT;
    hk_region_give(range);
}

static void block_that_moves_and_is_still_found(bool planted) {
    hk_range_t range = take_range(1);
    hk_map_set(range.start, HK_SLICES, planted ? HK_KIND_INTERIOR : HK_KIND_FOREIGN);
    CHECK(hk_region_move(&range, 2 * HK_UNIT, 2 * HK_UNIT));
}

/* ---- all plants, with the assertions expected ---- */

static const plant_t plants[] = {
    PLANT(lock_given_back_twice, "hk_load_relaxed(&lock->taken) == 1"),
    PLANT(locks_in_the_wrong_order, "!holds_any("),
    PLANT(worker_started_with_a_lock_held, "hk_lock_may_take(HK_RANK_WRITING)"),
    PLANT(line_too_long, "line->len < sizeof line->text"),
    PLANT(alignment_is_no_power_of_two, "hk_is_pow2(align)"),
    PLANT(unmap_half_an_os_page, "hk_is_aligned(bytes, hk_os_page_size())"),
    PLANT(word_that_there_is_not, "hk_option_is_valid(option, value)"),
    PLANT(number_out_of_range, "hk_option_is_valid(option, value)"),
    PLANT(end_of_an_entry_not_timed, "timings != NULL"),
    PLANT(class_of_a_large_block, "n <= HK_MID_MAX"),
    PLANT(kind_where_nothing_is_committed, "leaf != NULL"),
    PLANT(kind_that_there_is_not, "kind < HK_KIND_COUNT"),
    PLANT(kind_in_the_middle_of_a_slice, "hk_is_aligned((uintptr_t)p, HK_SLICE)"),
    PLANT(maps_that_differ, "flat == kind"),
    PLANT(written_behind_a_descriptor, "[i] == 0"),
    PLANT(range_given_back_twice, "<= free_ranges[i].start"),
    PLANT(more_given_than_was_handed_out, "less <= hk_region_live()"),
    PLANT(range_that_begins_within_a_unit, "hk_is_aligned((uintptr_t)r.start, HK_UNIT)"),
    PLANT(block_that_moves_and_is_still_found, "hk_map_kind(range->start) == HK_KIND_FOREIGN"),
};

int main(void) {
    nobody_else_purges();
    for (unsigned i = 0; i < sizeof plants / sizeof *plants; i++)
        check_plant(plants[i]);
    return 0;
}

#else

int main(void) { return unit_skip("only a debug build has assertions"); }

#endif
