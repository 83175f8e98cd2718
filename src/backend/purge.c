#include "backend/purge.h"

#include <string.h>

#include "backend/advise.h"
#include "backend/heap.h"
#include "backend/hugepages.h"
#include "backend/limit.h"
#include "backend/pack.h"
#include "backend/region.h"
#include "backend/slab.h"
#include "config/config.h"
#include "stats/counters.h"
#include "stats/sections.h"

/* Pages that are purged alternate with others at most: half of a superslab's smallest pages, and a
 * run of free slices for each second one. */
enum { MOST_RANGES = HK_UNIT / 4096 / 2 + HK_SLICES / 2 };

/* A process of so much is small, and for less than so much more it is not worth it. */
#define SMALL (4 * HK_MIB)
#define INSTEAD_OF (256 * HK_KIB)
/* Of a unit's end that no block reaches, less is not worth a call. */
#define LEAST_TAIL (512 * HK_KIB)
/* Nor is it to look at less before it is cleared. */
#define LEAST_HOLLOW HK_UNIT

hk_lock_t hk_purge_lock = HK_LOCK_INIT(HK_RANK_PURGE);

/* lock: purge. What is claimed of the superslab that is being purged; ranges[0..count) cover it,
 * those of the slices first. */
static hk_os_range_t ranges[MOST_RANGES];
static unsigned count;
static struct {
    hk_slab_t *slab;
    uint64_t pages;
    unsigned end; /* number of the range behind its own */
} claims[HK_SLICES];
static unsigned claim_count;

/* The slices that the first `done` ranges hold. */
static uint32_t slices_of(unsigned done) {
    uint32_t mask = 0;
    for (unsigned i = 0; i < done; i++)
        for (size_t at = 0; at < ranges[i].bytes; at += HK_SLICE)
            mask |= (uint32_t)1 << (((uintptr_t)ranges[i].start + at) >> HK_SLICE_SHIFT &
                                    (HK_SLICES - 1));
    return mask;
}

/* Ranges first .. end-1 ascend and do not touch; each is of OS pages of the unit. */
static void ascend(unsigned first, unsigned end, uintptr_t unit) {
    for (unsigned i = first; i < end; i++) {
        const uintptr_t start = (uintptr_t)ranges[i].start, last = start + ranges[i].bytes - 1;
        hk_assert(ranges[i].bytes != 0 && hk_is_aligned(start, hk_os_page_size()));
        hk_assert(hk_is_aligned(ranges[i].bytes, hk_os_page_size()));
        hk_assert(start >> HK_UNIT_SHIFT == unit && last >> HK_UNIT_SHIFT == unit);
        hk_assert(i == first || (uintptr_t)ranges[i - 1].start + ranges[i - 1].bytes < start);
    }
}

/* What is claimed of one superslab: free slices, then pages of slabs, each with the ranges that
 * cover them, and nothing twice. */
HK_WALKER static void claims_are_valid_locked(uint32_t slices, unsigned of_slices) {
    hk_assert(hk_lock_is_mine(&hk_purge_lock));
    hk_assert(of_slices <= HK_SLICES / 2 && of_slices <= count && count <= MOST_RANGES);
    const uintptr_t unit = count != 0 ? (uintptr_t)ranges[0].start >> HK_UNIT_SHIFT : 0;
    hk_assert(slices_of(of_slices) == slices);
    ascend(0, of_slices, unit);
    for (unsigned i = 0, at = of_slices; i < claim_count; at = claims[i++].end) {
        const hk_slab_t *slab = claims[i].slab;
        hk_assert(i == 0 || claims[i - 1].slab < slab); /* each once */
        hk_assert(claims[i].pages != 0 && claims[i].end > at);
        ascend(at, claims[i].end, unit);
        hk_assert((slices >> slab->first & 1) == 0);
        hk_assert((char *)ranges[at].start >= slab->base);
        const hk_os_range_t *last = &ranges[claims[i].end - 1];
        hk_assert((char *)last->start + last->bytes <= slab->base + slab->slices * HK_SLICE);
    }
    hk_assert(count == (claim_count != 0 ? claims[claim_count - 1].end : of_slices));
}

static void claim_slabs_locked(const hk_pool_cursor_t *cursor, hk_claim_t which, bool *seen) {
    claim_count = 0;
    hk_assert(hk_lock_is_mine(&hk_purge_lock) && cursor->count <= HK_SLICES);
    for (unsigned i = 0; i < cursor->count; i++) {
        hk_slab_t *slab = cursor->slabs[i];
        uint64_t pages = hk_heap_claim(slab, which, seen);
        if (pages == 0)
            continue;
        count += hk_mask_ranges(slab->base, pages, hk_os_page_size(), ranges + count);
        claims[claim_count].slab = slab;
        claims[claim_count].pages = pages;
        claims[claim_count++].end = count;
    }
}

/* Claimed memory goes back: huge pages first, by which the system would bring it in again. */
static hk_os_advised_t advise_locked(hk_superslab_t *ss, hk_advice_t how) {
    hk_os_range_t whole;
    if (hk_pool_rule_out_huge_pages(ss, &whole))
        hk_count(purge_calls, hk_advise(&whole, 1, HK_NO_HUGE_PAGES).calls);
    hk_assert(hk_lock_is_mine(&hk_purge_lock));
    hk_assert(hk_lock_may_take(HK_RANK_HEAP)); /* "without any such lock" */
    hk_os_advised_t advised = hk_advise(ranges, count, how);
    hk_count(purge_calls, advised.calls);
    return advised;
}

static size_t purge(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged, bool *seen) {
    hk_superslab_t *ss = cursor->superslab;
    hk_os_advised_t advised = {0};
    const hk_claim_t which = aged              ? HK_CLAIM_AGED
                             : how == HK_PURGE ? HK_CLAIM_LAZY_TOO
                                               : HK_CLAIM_DIRTY;
    unsigned of_slices;
    hk_lock(&hk_purge_lock);
    uint32_t slices = hk_pool_claim(ss, which, ranges, &of_slices);
    count = of_slices;
    claim_slabs_locked(cursor, which, seen);
    hk_walk(claims_are_valid_locked(slices, of_slices));
    if (count != 0)
        advised = advise_locked(ss, how);
    uint32_t purged = slices_of((unsigned)hk_min(advised.done, of_slices));
    size_t bytes = hk_pool_unclaim(ss, slices, purged, how == HK_RESET, seen);
    for (unsigned i = 0; i < claim_count; i++)
        hk_heap_unclaim(claims[i].slab, claims[i].pages, claims[i].end <= advised.done,
                        how == HK_RESET);
    for (size_t i = of_slices; i < advised.done; i++)
        bytes += ranges[i].bytes;
    hk_count(purge_bytes, bytes);
    hk_unlock(&hk_purge_lock);
    return bytes;
}

size_t hk_purge_superslab(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged, bool *seen) {
    hk_assert(cursor->superslab != NULL && (how == HK_PURGE || how == HK_RESET));
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    const uint64_t began = hk_os_now_ns();
    const size_t bytes = HK_TIMED_VALUE(purge, purge(cursor, how, aged, seen));
    hk_count(purge_ns, hk_os_now_ns() - began);
    return bytes;
}

bool hk_purge_pack(void **at, hk_advice_t how, bool aged, bool *seen, size_t *bytes) {
    const uint64_t began = hk_os_now_ns();
    hk_pack_claim_t claim;
    hk_os_advised_t advised = {0};
    size_t done = 0;
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    hk_lock(&hk_purge_lock);
    const bool more = hk_pack_claim(at, aged, seen, &claim);
    if (claim.count != 0)
        advised = hk_advise(claim.ranges, claim.count, how);
    for (unsigned i = 0; i < claim.count; i++) {
        done += i < advised.done ? claim.ranges[i].bytes : 0;
        hk_pack_give(claim.ranges[i].start, i < advised.done);
    }
    hk_unlock(&hk_purge_lock);
    *bytes = hk_min(done, claim.dirty);
    hk_count(purge_calls, advised.calls);
    hk_count(purge_bytes, *bytes);
    hk_count(purge_ns, hk_os_now_ns() - began);
    return more;
}

static bool may_purge_at_once(void) {
    return hk_option(lean) != 0 && hk_option(lean_decommit) == HK_DECOMMIT_DONTNEED &&
           !hk_advice_is_disabled();
}

void hk_purge_instead(void) {
    enum { LOOKS = 8 };
    static _Atomic size_t most = SMALL;     /* atomic: any thread; the most that it had, or that */
    static _Atomic(hk_superslab_t *) place; /* atomic: any thread; where the next look goes on */
    /* what the process has of memory, at most */
    const size_t now =
        hk_min(hk_minus(hk_counted_ever(touched), hk_counted_ever(purge_bytes)), hk_held());
    const size_t before = hk_load_relaxed(&most);
    if (now < before + INSTEAD_OF || !may_purge_at_once())
        return;
    if (hk_lock_is_taken(&hk_purge_lock)) /* by a purge; or the caller, whose last try it is */
        return;
    hk_store_relaxed(&most, now);
    hk_pool_cursor_t cursor = {.superslab = hk_load_relaxed(&place)};
    size_t done = 0;
    bool seen = false;
    for (unsigned looks = 0; looks < LOOKS && done < now - before; looks++)
        if (hk_pool_next(&cursor) && !cursor.huge_pages)
            done += hk_purge_superslab(&cursor, HK_PURGE, false, &seen);
    hk_store_relaxed(&place, cursor.superslab);
    if (done != 0)
        hk_count(purge_runs, 1);
}

/* Of what is in use: a refusal says nothing of what is free, which hk_advise() would conclude. */
static bool goes_back(char *p, size_t bytes) {
    return hk_os_advise(&(hk_os_range_t){p, bytes}, 1, HK_PURGE).done != 0;
}

size_t hk_purge_tail(char *p, size_t n, size_t dirty) {
    const size_t used = hk_align_up(n, hk_os_page_size());
    if (dirty < used + LEAST_TAIL || !hk_region_is_mostly_free() || !may_purge_at_once())
        return dirty;
    return goes_back(p + used, dirty - used) ? used : dirty;
}

void hk_purge_clear(char *p, size_t n) {
    const size_t page = hk_os_page_size(), pages = n / page * page;
    size_t gone = 0;
    if (n >= LEAST_HOLLOW && hk_is_aligned((uintptr_t)p, page) && may_purge_at_once() &&
        hk_huge_pages_is_hollow(p, pages) && goes_back(p, pages))
        gone = pages;
    memset(p + gone, 0, n - gone);
}

size_t hk_purge_cached(size_t most) {
    const uint64_t began = hk_os_now_ns();
    unsigned calls = 0;
    size_t bytes = hk_region_purge(most, &calls);
    hk_count(purge_ns, hk_os_now_ns() - began);
    hk_count(purge_calls, calls);
    hk_count(purge_bytes, bytes);
    hk_count(superslabs_retired, bytes / HK_UNIT);
    return bytes;
}

size_t hk_purge_all(void) {
    size_t bytes = 0;
    bool seen = false;
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    hk_heap_collect_all(true, hk_stash_clear);
    for (hk_pool_cursor_t cursor = {0}; hk_pool_next(&cursor);)
        bytes += hk_purge_superslab(&cursor, HK_PURGE, false, &seen);
    void *at = NULL;
    for (size_t of_pack; hk_purge_pack(&at, HK_PURGE, false, &seen, &of_pack);)
        bytes += of_pack;
    hk_pool_release_empty();
    bytes += hk_purge_cached(SIZE_MAX);
    if (bytes != 0)
        hk_count(purge_runs, 1);
    return bytes;
}
