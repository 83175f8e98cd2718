#include "backend/purge.h"

#include "backend/advise.h"
#include "backend/heap.h"
#include "backend/hugepages.h"
#include "backend/limit.h"
#include "backend/pack.h"
#include "backend/region.h"
#include "backend/slab.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"
#include "stats/sections.h"

/* Below SMALL a process gives nothing back for its growth, nor for growth of less than
 * INSTEAD_OF. */
#define SMALL (4 * HK_MIB)
#define INSTEAD_OF (256 * HK_KIB)
/* A shorter end of a unit that no block reaches is not worth a call. */
#define LEAST_TAIL (512 * HK_KIB)
/* Nor is it worth a look whether less is hollow, before it is cleared. */
#define LEAST_HOLLOW HK_UNIT

hk_lock_t hk_purge_lock = HK_LOCK_INIT(HK_RANK_PURGE);

/* Gives claimed ranges back, unless the system refuses, as for locked memory. Returns a bit for
 * each range that went. */
static uint32_t advise_locked(const hk_os_range_t *ranges, unsigned n, hk_advice_t how) {
    uint32_t gone = 0;
    hk_assert(hk_lock_is_mine(&hk_purge_lock));
    hk_assert(hk_lock_may_take(HK_RANK_HEAP)); /* no lock that guards what is claimed */
    for (unsigned i = 0; i < n && !hk_advice_is_disabled(); i++) {
        hk_count(purge_calls, 1);
        if (hk_advise(ranges[i].start, ranges[i].bytes, how))
            gone |= 1u << i;
    }
    return gone;
}

/* Rules out huge pages for the superslab before the first purge: with a huge page the system would
 * bring the memory in again. */
static void rule_out_huge_pages_locked(const hk_pool_cursor_t *cursor) {
    hk_os_range_t whole;
    if (cursor->huge_pages && hk_pool_rule_out_huge_pages(cursor->superslab, &whole))
        advise_locked(&whole, 1, HK_NO_HUGE_PAGES);
}

/* The same for ranges of a superslab. Returns a bit for each `step` bytes from `base` on that
 * went. */
static uint64_t give_back_locked(const hk_pool_cursor_t *cursor, const hk_os_range_t *ranges,
                                 unsigned n, hk_advice_t how, const char *base, size_t step) {
    uint64_t bits = 0;
    if (n != 0)
        rule_out_huge_pages_locked(cursor);
    for (uint32_t gone = advise_locked(ranges, n, how); gone != 0; gone &= gone - 1) {
        const hk_os_range_t *range = &ranges[__builtin_ctz(gone)];
        bits |= hk_bits((unsigned)((size_t)((const char *)range->start - base) / step),
                        (unsigned)(range->bytes / step));
    }
    return bits;
}

/* Results of a purge. */
typedef struct {
    bool seen;          /* more will be old enough at the next look */
    size_t bytes;       /* given back */
    hk_spoilt_t spoilt; /* the first write after free that was found */
} purged_t;

static void note(purged_t *purged, hk_spoilt_t spoilt) {
    if (HK_UNLIKELY(spoilt.at != NULL) && purged->spoilt.at == NULL)
        purged->spoilt = spoilt;
}

/* Reports a write after free, which would disappear with the purged page. */
static HK_COLD void tell(hk_spoilt_t spoilt) {
    const ptrdiff_t at = spoilt.bytes != HK_NO_SIZE ? spoilt.at - spoilt.block : HK_NOWHERE;
    hk_fault_say(HK_WRITE_AFTER_FREE, spoilt.block, spoilt.bytes, at, spoilt.bytes, "");
    hk_fault_end();
}

/* Purges free slices. Not inline: its list of ranges takes much of a small stack. */
static HK_NOINLINE void purge_slices_locked(const hk_pool_cursor_t *cursor, hk_advice_t how,
                                            hk_claim_t which, purged_t *all) {
    hk_os_range_t ranges[HK_SLICES / 2];
    unsigned n;
    const uint32_t claimed = hk_pool_claim(cursor->superslab, which, ranges, &n);
    note(all, hk_pool_look(cursor->superslab, claimed));
    /* the superslab may have other memory than when the cursor saw it */
    const char *base = n != 0 ? (const char *)((uintptr_t)ranges[0].start & ~(HK_UNIT - 1)) : NULL;
    const uint64_t gone = give_back_locked(cursor, ranges, n, how, base, HK_SLICE);
    all->bytes +=
        hk_pool_unclaim(cursor->superslab, claimed, (uint32_t)gone, how == HK_RESET, &all->seen);
}

/* Purges pages of a slab. When the cursor saw it, it was the superslab's; by now the descriptor may
 * be another slab's there, or unused. */
static HK_NOINLINE void purge_slab_locked(const hk_pool_cursor_t *cursor, hk_slab_t *slab,
                                          hk_advice_t how, hk_claim_t which, purged_t *all) {
    hk_os_range_t ranges[HK_SLICES];
    const uint64_t pages = hk_heap_claim(slab, which, &all->seen);
    if (pages == 0)
        return;
    /* both stay while pages are claimed */
    hk_assert(hk_map_owner(slab->base) == cursor->superslab);
    note(all, hk_pool_look_at_pages(slab, pages));
    const size_t page = hk_os_page_size();
    const unsigned n = hk_mask_ranges(slab->base, pages, page, ranges);
    const uint64_t gone = give_back_locked(cursor, ranges, n, how, slab->base, page);
    hk_heap_unclaim(slab, pages, gone, how == HK_RESET);
    all->bytes += hk_ones(gone) * page;
}

static size_t purge(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged, bool *seen) {
    const hk_claim_t which = aged              ? HK_CLAIM_AGED
                             : how == HK_PURGE ? HK_CLAIM_LAZY_TOO
                                               : HK_CLAIM_DIRTY;
    purged_t all = {0};
    hk_lock(&hk_purge_lock);
    purge_slices_locked(cursor, how, which, &all);
    for (unsigned i = 0; i < cursor->count && !hk_advice_is_disabled(); i++)
        purge_slab_locked(cursor, cursor->slabs[i], how, which, &all);
    hk_count(purge_bytes, all.bytes);
    hk_unlock(&hk_purge_lock);
    if (HK_UNLIKELY(all.spoilt.at != NULL))
        tell(all.spoilt);
    *seen |= all.seen;
    return all.bytes;
}

size_t hk_purge_superslab(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged, bool *seen) {
    hk_assert(cursor->superslab != NULL && (how == HK_PURGE || how == HK_RESET));
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    if (hk_advice_is_disabled())
        return 0;
    const uint64_t began = hk_os_now_ns();
    const size_t bytes = HK_TIMED_VALUE(purge, purge(cursor, how, aged, seen));
    hk_count(purge_ns, hk_os_now_ns() - began);
    return bytes;
}

/* Tails lie in blocks that are in use: a refusal says nothing about free memory. */
size_t hk_purge_tails(const hk_pool_cursor_t *cursor, hk_advice_t how, bool aged) {
    const uint64_t began = hk_os_now_ns();
    hk_os_range_t ranges[HK_SLICES];
    size_t bytes = 0;
    uint32_t gone = 0;
    unsigned n;
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    hk_lock(&hk_purge_lock);
    const uint32_t claimed = hk_pool_claim_tails(cursor->superslab, aged, ranges, &n);
    if (n != 0)
        rule_out_huge_pages_locked(cursor);
    for (unsigned i = 0; i < n; i++) {
        hk_count(purge_calls, 1);
        if (!hk_advise_in_use(ranges[i].start, ranges[i].bytes, how))
            continue;
        gone |= 1u << i;
        bytes += ranges[i].bytes;
    }
    hk_pool_unclaim_tails(cursor->superslab, claimed, gone, how == HK_RESET);
    hk_unlock(&hk_purge_lock);
    hk_count(purge_bytes, bytes);
    hk_count(purge_ns, hk_os_now_ns() - began);
    return bytes;
}

bool hk_purge_pack(void **at, hk_advice_t how, bool aged, bool *seen, size_t *bytes) {
    const uint64_t began = hk_os_now_ns();
    hk_pack_claim_t claim;
    size_t gone = 0;
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    hk_lock(&hk_purge_lock);
    const bool more = hk_pack_claim(at, aged, seen, &claim);
    const uint32_t purged = advise_locked(claim.ranges, claim.count, how);
    for (unsigned i = 0; i < claim.count; i++) {
        gone += (purged >> i & 1) != 0 ? claim.ranges[i].bytes : 0;
        hk_pack_give(claim.ranges[i].start, (purged >> i & 1) != 0);
    }
    hk_unlock(&hk_purge_lock);
    *bytes = hk_min(gone, claim.dirty);
    hk_count(purge_bytes, *bytes);
    hk_count(purge_ns, hk_os_now_ns() - began);
    return more;
}

static bool may_purge_at_once(void) {
    return hk_lean_mode() == HK_DECOMMIT_DONTNEED && !hk_advice_is_disabled();
}

/* atomic: any thread; what the last look found, less (touched - purge_bytes) as counted then,
 * modulo 2^64. It corrects counts that drift: cached ranges are counted as purged by their
 * addresses, some of which never had memory, and some memory goes without being counted. */
static _Atomic uint64_t found_beyond;

static uint64_t came_less_gone(void) {
    return hk_counted_ever(touched) - hk_counted_ever(purge_bytes);
}

void hk_purge_found(size_t bytes) { hk_store_relaxed(&found_beyond, bytes - came_less_gone()); }

size_t hk_purge_memory(void) {
    const int64_t bytes = (int64_t)(came_less_gone() + hk_load_relaxed(&found_beyond));
    return bytes < 0 ? 0 : hk_min((size_t)bytes, hk_held());
}

void hk_purge_instead(void) {
    enum { LOOKS = 8 };
    /* atomic: any thread; the most memory there was, at least SMALL */
    static _Atomic size_t most = SMALL;
    static _Atomic(hk_superslab_t *) place; /* atomic: any thread; where the next call goes on */
    const size_t now = hk_purge_memory(), before = hk_load_relaxed(&most);
    if (now < before + INSTEAD_OF || !may_purge_at_once())
        return;
    if (hk_lock_is_taken(&hk_purge_lock)) /* by a purge, or by the caller on its last try */
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

size_t hk_purge_cut(char *p, size_t n, size_t dirty) {
    const size_t used = hk_align_up(n, hk_os_page_size());
    if (dirty < used + LEAST_TAIL || !may_purge_at_once())
        return dirty;
    return hk_advise_in_use(p + used, dirty - used, HK_PURGE) ? used : dirty;
}

size_t hk_purge_tail(char *p, size_t n, size_t dirty) {
    return hk_region_is_mostly_free() ? hk_purge_cut(p, n, dirty) : dirty;
}

void hk_purge_clear(char *p, size_t n) {
    const size_t page = hk_os_page_size(), pages = n / page * page;
    size_t gone = 0;
    if (n >= LEAST_HOLLOW && hk_is_aligned((uintptr_t)p, page) && may_purge_at_once() &&
        hk_huge_pages_is_hollow(p, pages) && hk_advise_in_use(p, pages, HK_PURGE))
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

size_t hk_purge_all(bool (*goes_on)(void *), void *argument) {
    size_t bytes = 0;
    bool seen = false;
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    hk_heap_collect_all(true, hk_stash_clear);
    hk_advice_try_again();
    for (hk_pool_cursor_t cursor = {0}; goes_on(argument) && hk_pool_next(&cursor);) {
        bytes += hk_purge_superslab(&cursor, HK_PURGE, false, &seen);
        bytes += hk_purge_tails(&cursor, HK_PURGE, false);
    }
    void *at = NULL;
    for (size_t of_pack; goes_on(argument) && hk_purge_pack(&at, HK_PURGE, false, &seen, &of_pack);)
        bytes += of_pack;
    hk_pool_release_empty();
    bytes += hk_purge_cached(SIZE_MAX);
    if (bytes != 0)
        hk_count(purge_runs, 1);
    return bytes;
}
