/* Statistics of memory: resident, dirty, given back, and peaks, with and without access to /proc. */
#include "backend/heap.h"
#include "backend/limit.h"
#include "backend/meta.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/thread.h"
#include "stats_now.h"

#define HUGE_BYTES (5 * HK_MIB)

static void flush_all(void) {
    hk_thread_t *self = hk_thread_enter();
    hk_thread_flush(self, true);
    hk_heap_collect(&self->heap);
    hk_thread_leave(self);
}

/* Resident memory includes the descriptors of slabs. This test comes first: later ones would reuse descriptors. */
static void resident_metadata(void) {
    enum { BLOCKS = 6144, SIZE = 4096 };
    static void *blocks[BLOCKS];
    hak_stats_t before = now();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    hak_stats_t after = now();
    uint64_t superslabs =
        (after.mapped - after.metadata - before.mapped + before.metadata) / HK_UNIT;
    CHECK(superslabs >= 10);
    /* an eighth of the descriptors may have been resident before */
    uint64_t descriptors = superslabs * HK_SLICES * sizeof(hk_slab_t);
    CHECK(after.resident - before.resident >=
          after.carved - before.carved - HK_SLICE + descriptors / 8 * 7);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Freed memory is dirty until it is purged: pages of slabs without a live block, and free slabs. */
static void dirty_memory(void) {
    enum { SIZE = 2048, PAGE = 4096, BLOCKS = 4000, GROUP = 8, SLACK = 64 * PAGE };
    static void *blocks[BLOCKS];
    if (getpagesize() != PAGE)
        return;
    hk_trim();
    hak_stats_t before = now();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    hak_stats_t full = now();
    CHECK(full.resident - before.resident >= BLOCKS * SIZE);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        hak_free(blocks[i]);
    flush_all();
    hak_stats_t half = now(); /* one block of each page lives: nothing new is dirty */
    CHECK_EQ(half.resident, full.resident);
    CHECK(half.dirty <= full.dirty + SLACK);
    for (unsigned i = 1; i < BLOCKS; i += 2)
        if (i % GROUP != 1)
            hak_free(blocks[i]);
    flush_all();
    hak_stats_t eighth = now(); /* one block of each four pages lives */
    CHECK(eighth.dirty + SLACK >= full.dirty + BLOCKS * SIZE / 4 * 3);
    CHECK(eighth.dirty <= full.dirty + BLOCKS * SIZE / 4 * 3 + SLACK);
    for (unsigned i = 1; i < BLOCKS; i += GROUP)
        hak_free(blocks[i]);
    flush_all();
    hak_stats_t empty = now();
    CHECK(empty.dirty + SLACK >= full.dirty + BLOCKS * SIZE);
    hk_trim();
    hak_stats_t trimmed = now();
    CHECK(trimmed.dirty + BLOCKS * SIZE <= empty.dirty + SLACK);
    CHECK(trimmed.resident + BLOCKS * SIZE <= empty.resident + SLACK);
    check_equations(&trimmed);
}

/* A trim that gives anything back counts as a purge: its run, calls, bytes and time. */
static void trims_are_counted(void) {
    enum { SIZE = 3000, BLOCKS = 1000 };
    static void *blocks[BLOCKS];
    hk_trim();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    hak_free(touched(HUGE_BYTES / 2)); /* into the cache of ranges */
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_stats_t before = now();
    CHECK(before.cached != 0);
    CHECK(hk_trim());
    hak_stats_t after = now();
    CHECK_EQ(after.cached, 0);
    CHECK_EQ(after.purge_runs - before.purge_runs, 1);
    CHECK(after.purge_calls - before.purge_calls >= 2);
    CHECK(after.purge_bytes - before.purge_bytes >= before.cached + BLOCKS * SIZE / 2);
    CHECK(after.purge_ns > before.purge_ns);
    CHECK(after.superslabs_retired - before.superslabs_retired >= before.cached / HK_UNIT);
    while (hk_trim())
        continue;
    uint64_t runs = now().purge_runs;
    CHECK(!hk_trim());
    CHECK_EQ(now().purge_runs, runs);
}

/* A free superslab most of which was given back before is unmapped whole, not cached; that counts as one purge call. */
static void hollow_superslabs(void) {
    hk_trim();
    hk_slab_t *first = hk_pool_take(HK_SLICES, 0, 1), *second = hk_pool_take(HK_SLICES, 0, 1);
    CHECK(first != NULL && second != NULL && hk_pool_resize(first, 1));
    memset(first->base, 1, HK_SLICE);
    memset(second->base, 1, HK_UNIT);
    hk_trim();
    hak_stats_t before = now();
    hk_pool_give(second);
    hk_pool_give(first);
    hk_pool_release_empty();
    hak_stats_t after = now();
    CHECK_EQ(after.superslabs_retired - before.superslabs_retired, 1);
    CHECK_EQ(after.purge_calls - before.purge_calls, 1);
    CHECK_EQ(after.munmap - before.munmap, 1);
}

static hak_stats_t now_without_files(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}) == 0);
    const hak_stats_t blind = now();
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return blind;
}

/* If no file can be opened mincore() is asked instead: the figures are nearly the same. Pages that were only read count
 * as resident then, and the process's peak is unknown. */
static void without_files(void) {
    void *block = touched(HUGE_BYTES);
    hak_stats_t before = now(), blind = now_without_files();
    CHECK_EQ(blind.peak_resident, 0);
    CHECK(blind.mincore > before.mincore);
    CHECK(blind.resident >= before.resident);
    CHECK(blind.resident - before.resident <= 256 * HK_KIB);
    CHECK(blind.dirty >= before.dirty);
    hak_free(block);
}

/* Nor is any page left out of a block that ends within a unit, as where memory is bounded. */
static void without_files_and_bounded(void) {
    enum { BLOCKS = 8 };
    static const size_t bytes = HK_UNIT + HK_MIB + 4096;
    void *blocks[BLOCKS];
    const uint64_t before = now_without_files().resident;
    hk_store_relaxed(&hk_region_bounded, true);
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(bytes);
    CHECK(now_without_files().resident >= before + BLOCKS * bytes);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    CHECK(now_without_files().resident < before + bytes);
    hk_store_relaxed(&hk_region_bounded, false);
}

static void peaks(void) {
    hak_stats_t before = now();
    hak_free(touched(before.peak_mapped + HUGE_BYTES));
    hak_stats_t after = now();
    CHECK(after.peak_mapped >= before.peak_mapped + HUGE_BYTES);
    CHECK(after.peak_resident == 0 || after.peak_resident >= after.resident);
    CHECK_EQ(after.huge_allocs - before.huge_allocs, 1);
    CHECK(hak_malloc((size_t)1 << 47) == NULL);
    CHECK(now().huge_failures > after.huge_failures);
}

/* The peak is the most that was mapped at one time, and never decreases. It is not the sum of the separate peaks of
 * regions, single blocks and metadata. */
static void peaks_of_all_together(void) {
    hk_trim();
    hak_stats_t before = now();
    CHECK(before.mapped + 8 * HK_MIB < before.peak_mapped);
    hk_single_comes(2 * HK_MIB);
    CHECK(hk_meta_alloc(HK_MIB) != NULL);
    hak_stats_t after = now();
    CHECK(after.mapped >= before.mapped + 3 * HK_MIB);
    CHECK_EQ(after.peak_mapped, before.peak_mapped);
    hk_single_goes(2 * HK_MIB);
    hk_single_comes(before.peak_mapped); /* as a fenced block: freed, kept, and unmapped below */
    const uint64_t most = now().mapped;
    CHECK_EQ(now().peak_mapped, most);
    hk_single_goes(before.peak_mapped);
    hk_single_is_kept(before.peak_mapped);
    CHECK_EQ(now().peak_mapped, most);
    hk_single_is_gone(before.peak_mapped);
    after = now();
    CHECK_EQ(after.peak_mapped, most);
    check_equations(&after);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean, 0); /* nobody collects or purges but this test */
    hk_store_relaxed(&hk_config.thp, 0);  /* huge pages bring memory that nobody has touched */
    /* freed ranges stay cached, to be counted */
    hk_store_relaxed(&hk_config.region_cache_mb, (uint64_t)64);
    hak_free(hak_malloc(1));
    resident_metadata();
    dirty_memory();
    trims_are_counted();
    without_files();
    without_files_and_bounded();
    peaks();
    peaks_of_all_together();
    hollow_superslabs();
    return 0;
}
