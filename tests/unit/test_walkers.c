/* The assertions and walkers of a debug build can fail: each of these does something twice, the
 * second time with a corruption or a misuse planted in it, and the process must end with the
 * assertion that is about it. Without the plant the same steps must pass. */
#include "backend/heap.h"
#include "backend/large.h"
#include "backend/meta.h"
#include "backend/pack.h"
#include "backend/region.h"
#include "backend/slab.h"
#include "backend/superslab_own.h"
#include "base/report.h"
#include "base/worker.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/look.h"
#include "policy/purger.h"
#include "stats/sections.h"
#include "superslabs.h"

#if HK_DEBUG

static hk_heap_t a, b;
static const unsigned CLS = 21; /* 1024 bytes: 64 blocks in one slice */
enum { BLOCKS = 64 };

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

static void *returns(void *unused) { return unused; }

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

/* ---- superslabs ---- */

static hk_superslab_t *superslab_of(const hk_slab_t *slab) { return hk_map_owner(slab->base); }

/* So often that the whole pool is looked at. */
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
    hk_slab_t *run = own_superslab(false), *full = hk_pool_take(HK_SLICES, 0);
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
    hk_pool_unclaim(hk_map_owner(run->base), planted ? claimed | 1 : claimed, 0, false);
}

static void slab_that_has_an_owner(bool planted) {
    hk_slab_t *slab = hk_pool_take(1, CLS);
    hk_store_relaxed(&slab->owner, planted ? &a : NULL);
    hk_pool_give(slab);
}

static void slab_with_a_block_in_use(bool planted) {
    void *block;
    hk_slab_t *slab = hk_pool_take(1, CLS);
    if (planted)
        hk_slab_take(slab, &block + 1, 1);
    hk_pool_give(slab);
}

static void slab_with_a_lost_remote_free(bool planted) {
    hk_slab_t *slab = hk_pool_take(1, CLS);
    hk_store_relaxed(hk_remote_bits(slab, &hk_classes[slab->cls]), planted ? 8u : 0u);
    hk_pool_give(slab);
}

/* ---- slabs ---- */

static void bit_that_is_not_counted(bool planted) {
    void *blocks[3];
    hk_slab_t *slab = hk_pool_take(1, CLS);
    hk_slab_take(slab, blocks + 2, 2);
    slab->bits[0] |= planted ? 1 : 0;
    hk_slab_take(slab, blocks + 3, 1);
}

static void page_clean_and_seen(bool planted) {
    void *block;
    hk_slab_t *slab = hk_pool_take(1, CLS);
    hk_store_relaxed(&slab->clean, 2u);
    slab->seen = planted ? 2 : 4;
    slab->marked = true;
    hk_slab_take(slab, &block + 1, 1);
}

static void pages_that_are_not_claimed(bool planted) {
    hk_slab_t *slab = hk_pool_take(1, CLS);
    hk_slab_mark_slices(slab, 0, 0);
    uint64_t pages = hk_slab_claim(slab, false);
    if (planted)
        slab->bits[0] |= 1;
    CHECK_EQ(hk_slab_unclaim(slab, pages, true, false), BLOCKS);
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
    slabs[0]->listed = planted; /* and no list has it: a ring of its own */
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
    hk_heap_collect_all();
}

static void class_that_there_is_not(bool planted) {
    void *block;
    hk_heap_take(&a, planted ? 0 : CLS, &block, 1);
}

/* ---- blocks above 32 KiB ---- */

static void huge_block_without_its_inside(bool planted) {
    size_t dirty;
    char *p = hk_large_alloc(3 * HK_UNIT, 16, &dirty);
    CHECK(p != NULL);
    if (planted)
        hk_map_set(p + HK_SLICE, 1, HK_KIND_FREE);
    CHECK(hk_large_resize(p, HK_KIND_HUGE, 2 * HK_UNIT + 1) == p);
}

static void huge_block_that_ends_anywhere(bool planted) {
    size_t dirty;
    char *p = hk_large_alloc(3 * HK_UNIT, 16, &dirty);
    CHECK(p != NULL);
    ((hk_range_t *)hk_map_owner(p))->bytes -= planted; /* its descriptor begins with the range */
    CHECK(hk_large_resize(p, HK_KIND_HUGE, 2 * HK_UNIT + 1) == p);
}

static void grain_that_is_no_blocks(bool planted) {
    char *p = hk_pack_alloc(40000), *q = hk_pack_alloc(40000);
    CHECK(p != NULL && q != NULL);
    unsigned *used = (unsigned *)((char **)hk_map_owner(p) + 1); /* behind the base */
    *used += planted;
    CHECK(hk_pack_free(p) >= 40000);
}

static void large_block_of_no_kind(bool planted) {
    size_t dirty;
    char *p = hk_large_alloc(100000, 16, &dirty);
    CHECK(p != NULL);
    hk_large_free(p, planted ? HK_KIND_INTERIOR : HK_KIND_LARGE);
}

/* ---- purging ---- */

/* A cursor whose slabs are not the superslab's. */
static void claims_of_two_superslabs(bool planted) {
    hk_slab_t *slabs[3], *run;
    bool seen = false, found = false;
    three_slabs(slabs);
    hk_heap_give(&a, CLS, blocks + 1, BLOCKS - 2);
    run = own_superslab(false); /* it was wholly free: theirs is another */
    for (hk_pool_cursor_t cursor = {0}; !found && hk_pool_next(&cursor);) {
        for (unsigned i = 0; i < cursor.count; i++)
            found |= cursor.slabs[i] == slabs[0];
        if (found && planted)
            cursor.superslab = hk_map_owner(run->base);
        if (found)
            hk_purge_superslab(&cursor, (hk_purge_way_t){.how = HK_PURGE, .aged = false}, &seen);
    }
    CHECK(found);
}

static void purge_of_nothing(bool planted) {
    hk_pool_cursor_t cursor = {0};
    bool seen = false;
    CHECK(planted || hk_pool_next(&cursor));
    hk_purge_superslab(&cursor, (hk_purge_way_t){.how = HK_PURGE, .aged = false}, &seen);
}

static void purger_let_go_twice(bool planted) {
    hk_look_hold();
    hk_look_release();
    if (planted)
        hk_look_release();
}

/* ---- all of them ---- */

typedef void planting_t(bool planted);

#define PLANTS(X)                                                                                  \
    X(lock_given_back_twice, "hk_load_relaxed(&lock->taken) == 1")                                 \
    X(locks_in_the_wrong_order, "held[r] == 0")                                                    \
    X(worker_started_with_a_lock_held, "hk_lock_may_take(HK_RANK_WRITING)")                        \
    X(line_too_long, "line->len < sizeof line->text")                                              \
    X(alignment_is_no_power_of_two, "hk_is_pow2(align)")                                           \
    X(unmap_half_an_os_page, "hk_is_aligned(bytes, hk_os_page_size())")                            \
    X(word_that_there_is_not, "hk_option_is_valid(option, value)")                                 \
    X(number_out_of_range, "hk_option_is_valid(option, value)")                                    \
    X(end_of_an_entry_not_timed, "timings != NULL")                                                \
    X(class_of_a_large_block, "n <= HK_MID_MAX")                                                   \
    X(kind_where_nothing_is_committed, "leaf != NULL")                                             \
    X(kind_that_there_is_not, "kind < HK_KIND_COUNT")                                              \
    X(kind_in_the_middle_of_a_slice, "hk_is_aligned(a, HK_SLICE)")                                 \
    X(maps_that_differ, "flat == kind")                                                            \
    X(written_behind_a_descriptor, "[i] == 0")                                                     \
    X(range_given_back_twice, "<= free_ranges[i].start")                                           \
    X(more_given_than_was_handed_out, "bytes <= hk_region_live()")                                 \
    X(range_that_begins_within_a_unit, "hk_is_aligned((uintptr_t)r.start, HK_UNIT)")               \
    X(block_that_moves_and_is_still_found, "hk_map_kind(range->start) == HK_KIND_FOREIGN")         \
    X(run_longer_than_its_slices, "ss->head[i] == first")                                          \
    X(slice_of_another_run, "ss->head[i] == first")                                                \
    X(free_slice_in_use, "(run & ~carved) == 0")                                                   \
    X(fresh_slice_in_use, "& ~ss->free) == 0")                                                     \
    X(superslab_on_the_wrong_list, "ss->list == longest_run(ss->free)")                            \
    X(totals_that_are_wrong, "bytes == hk_pool_mapped()")                                          \
    X(slices_that_are_not_claimed, "(ss->claimed & claimed) == claimed")                           \
    X(slab_that_has_an_owner, "hk_load_relaxed(&slab->owner) == NULL")                             \
    X(slab_with_a_block_in_use, "hk_load_relaxed(&slab->free) == hk_classes[slab->cls].blocks")    \
    X(slab_with_a_lost_remote_free, "hk_load_relaxed(&hk_remote_bits(slab, c)[w]) == 0")           \
    X(bit_that_is_not_counted, "free == hk_load_relaxed(&slab->free)")                             \
    X(page_clean_and_seen, "(slab->seen & hk_load_relaxed(&slab->clean)) == 0")                    \
    X(pages_that_are_not_claimed, "& run_mask(")                                                   \
    X(ring_that_is_broken, "slab->next->prev == slab")                                             \
    X(slab_of_another_heap_on_the_list, "hk_load_relaxed(&slab->owner) == heap")                   \
    X(slab_that_is_not_on_the_list, "found == slab->listed")                                       \
    X(free_blocks_counted_wrong, "free == hk_load_relaxed(&slab->free)")                           \
    X(pending_word_lost, "hk_load_relaxed(&hk_remote_of(slab)->pending) == 1")                     \
    X(remote_free_of_no_block, "bits >> (c->blocks - w * 64) == 0")                                \
    X(orphaned_twice, "hk_load_relaxed(&heap->orphan) != orphan")                                  \
    X(collected_with_a_heap_locked, "hk_lock_may_take(HK_RANK_HEAP)")                              \
    X(class_that_there_is_not, "cls != 0")                                                         \
    X(huge_block_without_its_inside, "== HK_KIND_INTERIOR")                                        \
    X(huge_block_that_ends_anywhere, "hk_is_aligned(r->bytes, hk_os_page_size())")                 \
    X(grain_that_is_no_blocks, "pack->used == in_blocks")                                          \
    X(large_block_of_no_kind, "hk_large_is(kind)")                                                 \
    X(claims_of_two_superslabs, "== unit")                                                         \
    X(purge_of_nothing, "cursor->superslab != NULL")                                               \
    X(purger_let_go_twice, "hk_lock_is_mine(&lock)")

static const struct {
    planting_t *run;
    const char *name, *assertion;
} plants[] = {
#define X(name, assertion) {name, #name, assertion},
    PLANTS(X)
#undef X
};

typedef struct {
    planting_t *run;
    bool planted;
} run_t;

/* What is about the OS pages of one slab. */
static bool needs_pages(planting_t *run) {
    return run == page_clean_and_seen || run == claims_of_two_superslabs;
}

static void run_one(void *argument) {
    const run_t *run = argument;
    run->run(run->planted);
}

int main(void) {
    static child_t child;
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_store_relaxed(&hk_config.region_cache_mb, (uint64_t)64);
    hk_policy_apply(); /* nobody else purges */
    hak_free(hak_malloc(1));
    hk_heap_init(&a);
    hk_heap_init(&b);
    for (unsigned i = 0; i < sizeof plants / sizeof *plants; i++) {
        run_t run = {plants[i].run, false};
        if (hk_os_page_size() == HK_SLICE && needs_pages(run.run))
            continue;
        child_run(&child, run_one, &run);
        if (child.status != 0)
            dprintf(STDERR_FILENO, "%s, nothing planted: %s\n", plants[i].name, child.text);
        CHECK_EQ(child.status, 0);
        run.planted = true;
        child_run(&child, run_one, &run);
        bool failed = strncmp(child.text, "hakmem: assertion failed: ", 26) == 0;
        if (!failed || strstr(child.text, plants[i].assertion) == NULL)
            dprintf(STDERR_FILENO, "%s: expected %s, got: %s\n", plants[i].name,
                    plants[i].assertion, child.text);
        CHECK(failed && strstr(child.text, plants[i].assertion) != NULL);
        CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
    }
    return 0;
}

#else

int main(void) {
    puts("SKIPPED: only a debug build has assertions");
    return UNIT_SKIPPED;
}

#endif
