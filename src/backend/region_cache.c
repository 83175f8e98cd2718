/* The cache of freed ranges, and how they go back to the system. */

#include "backend/advise.h"
#include "backend/breath.h"
#include "backend/limit.h"
#include "backend/mappings.h"
#include "backend/region_own.h"
#include "base/counters.h"
#include "base/lock.h"
#include "config/config.h"

enum { FREE_SLOTS = 256, NONE = FREE_SLOTS };

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_REGION);
/* lock: region, down to most_live. Sorted by address, neighbours joined. Invariant:
 * cached == sum of their bytes. */
static hk_range_t free_ranges[FREE_SLOTS];
static unsigned free_count;
static _Atomic size_t cached, live; /* atomic: also read without the lock */
static size_t next_look = HK_REGION_FIRST_LOOK;
static size_t most_live; /* the most that has been handed out */

atomic_bool hk_region_look_is_due;

atomic_uint hk_region_no_moves, hk_region_no_cuts;

bool hk_region_moves(void) { return hk_load_relaxed(&hk_region_no_moves) == 0; }
size_t hk_region_live(void) { return hk_load_relaxed(&live); }
size_t hk_region_cached(void) { return hk_load_relaxed(&cached); }

/* Checks the cache's equation and order. */
HK_WALKER static void cache_is_valid_locked(void) {
    size_t sum = 0;
    hk_assert(hk_lock_is_mine(&lock) && free_count <= FREE_SLOTS);
    for (unsigned i = 0; i < free_count; i++) {
        const hk_range_t *r = &free_ranges[i];
        hk_walk(hk_range_is_valid(*r));
        hk_assert(!hk_range_is_exact(r));
        /* sorted and apart: adjacent ranges would have been joined */
        hk_assert(i == 0 || hk_range_end(r - 1) < r->start);
        sum += r->bytes;
    }
    hk_assert(sum == hk_region_cached());
    hk_assert(hk_region_live() + hk_region_cached() <= hk_mapped_peak());
}

/* ---- the free ranges ---- */

static void delete_locked(unsigned i) {
    hk_assert(hk_lock_is_mine(&lock) && i < free_count);
    hk_sub_relaxed(&cached, free_ranges[i].bytes);
    free_count--;
    memmove(&free_ranges[i], &free_ranges[i + 1], (free_count - i) * sizeof free_ranges[0]);
}

/* False: there is no slot left. */
static bool insert_locked(hk_range_t range) {
    hk_walk(hk_range_is_valid(range));
    hk_assert(hk_lock_is_mine(&lock) && !hk_range_is_exact(&range));
    unsigned i = 0;
    while (i < free_count && free_ranges[i].start < range.start)
        i++;
    /* an overlap: the range was given back twice, or never handed out */
    hk_assert(i == free_count || hk_range_end(&range) <= free_ranges[i].start);
    hk_assert(i == 0 || hk_range_end(&free_ranges[i - 1]) <= range.start);
    if (i < free_count && hk_range_end(&range) == free_ranges[i].start) {
        range.bytes += free_ranges[i].bytes;
        range.mixed = true;
        delete_locked(i);
    }
    if (i > 0 && hk_range_end(&free_ranges[i - 1]) == range.start) {
        range.start = free_ranges[i - 1].start;
        range.bytes += free_ranges[i - 1].bytes;
        range.mixed = true;
        delete_locked(--i);
    }
    if (free_count == FREE_SLOTS)
        return false;
    memmove(&free_ranges[i + 1], &free_ranges[i], (free_count - i) * sizeof free_ranges[0]);
    free_ranges[i] = range;
    free_count++;
    hk_add_relaxed(&cached, range.bytes);
    /* a fresh range into which no pages could be moved comes here without having been handed out:
     * the peak may grow */
    hk_mapped_more();
    hk_walk(cache_is_valid_locked());
    return true;
}

/* Takes [start, start+bytes) out of free range i. If something is left on both sides that needs one
 * more slot. */
static void cut_locked(unsigned i, char *start, size_t bytes) {
    hk_range_t r = free_ranges[i];
    hk_assert(i < free_count && bytes != 0 && bytes % HK_UNIT == 0);
    hk_assert(start >= r.start && start + bytes <= hk_range_end(&r));
    hk_range_t before = {r.start, (size_t)(start - r.start), r.mixed};
    hk_range_t behind = {start + bytes, r.bytes - bytes - before.bytes, r.mixed};
    bool kept = true;
    delete_locked(i);
    if (before.bytes != 0)
        kept = insert_locked(before);
    if (behind.bytes != 0)
        kept &= insert_locked(behind);
    hk_assert(kept);
}

bool hk_region_fit(size_t bytes, size_t align, hk_range_t *range) {
    hk_lock(&lock);
    unsigned best = NONE;
    for (unsigned i = 0; i < free_count; i++) {
        const hk_range_t *r = &free_ranges[i];
        const size_t skipped = hk_align_up((uintptr_t)r->start, align) - (uintptr_t)r->start;
        if (r->bytes >= bytes && r->bytes - bytes >= skipped &&
            (skipped == 0 || free_count < FREE_SLOTS) &&
            (best == NONE || r->bytes < free_ranges[best].bytes))
            best = i;
    }
    if (best != NONE) {
        char *start = (char *)hk_align_up((uintptr_t)free_ranges[best].start, align);
        *range = (hk_range_t){start, bytes, free_ranges[best].mixed};
        cut_locked(best, start, bytes);
    }
    hk_unlock(&lock);
    return best != NONE;
}

bool hk_region_cut_at(const char *start, size_t bytes) {
    bool found = false;
    hk_lock(&lock);
    for (unsigned i = 0; i < free_count && !found; i++) {
        found = free_ranges[i].start == start && free_ranges[i].bytes >= bytes;
        if (found)
            cut_locked(i, free_ranges[i].start, bytes);
    }
    hk_unlock(&lock);
    return found;
}

unsigned hk_region_gather(size_t bytes, hk_range_t *out) {
    unsigned n = 0;
    hk_lock(&lock);
    while (n < HK_REGION_GATHERED && bytes > 0 && free_count > 0) {
        unsigned largest = 0;
        for (unsigned i = 1; i < free_count; i++)
            if (free_ranges[i].bytes > free_ranges[largest].bytes)
                largest = i;
        hk_range_t *r = &free_ranges[largest];
        out[n] = (hk_range_t){r->start, hk_min(bytes, r->bytes), r->mixed};
        cut_locked(largest, out[n].start, out[n].bytes); /* the rest gets the slot just freed */
        bytes -= out[n++].bytes;
    }
    hk_walk(cache_is_valid_locked());
    hk_unlock(&lock);
    return n;
}

/* False: refused, since the mapping would have to be cut and the process has no mapping to
 * spare. */
static bool unmap(hk_range_t range) {
    hk_walk(hk_range_is_valid(range));
    hk_assert(hk_lock_may_take(HK_RANK_REGION)); /* no system call with the lock held */
    hk_map_set(range.start, hk_slices_of(range.bytes), HK_KIND_FOREIGN);
    if (!hk_os_unmap(range.start, range.bytes))
        return false;
    hk_held_drop(range.bytes);
    hk_count(region_unmaps, 1);
    return true;
}

void hk_region_change_live(size_t less, size_t more) {
    hk_lock(&lock);
    hk_assert(less <= hk_region_live()); /* no more than was handed out */
    hk_store_relaxed(&live, hk_region_live() - less + more);
    hk_mapped_more();
    most_live = hk_max(most_live, hk_region_live());
    const bool looks = hk_region_live() >= next_look;
    if (looks)
        next_look = 2 * hk_region_live();
    if (HK_UNLIKELY(looks || (hk_limit_is_near() && !hk_region_is_bounded())))
        hk_store_relaxed(&hk_region_look_is_due, true);
    hk_unlock(&lock);
}

/* Takes `most` bytes, rounded up to units, or less off the end of the last free range below
 * `limit`; bytes == 0: there is none. */
static hk_range_t cut_end_locked(size_t most, const char *limit) {
    unsigned i = free_count;
    while (i > 0 && free_ranges[i - 1].start >= limit)
        i--;
    if (i == 0)
        return (hk_range_t){0};
    hk_assert(most != 0); /* a range is not empty */
    hk_range_t last = free_ranges[i - 1];
    const char *end = hk_range_end(&last) < limit ? hk_range_end(&last) : limit;
    size_t bytes = hk_align_up(hk_min((size_t)(end - last.start), most), HK_UNIT);
    char *start = last.start + (end - last.start) - bytes;
    if (end != hk_range_end(&last) && free_count == FREE_SLOTS)
        return (hk_range_t){0}; /* the part behind `limit` would have no slot */
    cut_locked(i - 1, start, bytes);
    return (hk_range_t){start, bytes, last.mixed};
}

#define TOP ((const char *)UINTPTR_MAX)

static size_t bound(void) {
    return hk_max(hk_option(region_cache_mb) * HK_MIB, hk_region_live() / 4);
}

bool hk_region_is_mostly_free(void) {
    return hk_region_cached() > hk_max(bound(), hk_region_live());
}

/* How much less is handed out than at the peak, minus a sixteenth: about that much of their units
 * blocks do not reach or keep for growth, now as then. */
static size_t less_than_once_locked(void) { return (most_live - hk_region_live()) / 16 * 15; }

/* Whether free memory is looked at and given back later, so that nothing kept now stays for
 * ever. */
static bool is_looked_at(void) { return hk_lean_mode() != HK_DECOMMIT_OFF; }

/* Whether the cache may exceed its bound by the breath: only if the process once had more than that
 * in use, and what is free is given back later. */
static bool may_breathe_locked(void) {
    return hk_option(region_cache_mb) != 0 && is_looked_at() && !hk_region_is_bounded() &&
           hk_limit() == 0 && less_than_once_locked() > bound();
}

/* Takes up to `bytes` bytes that exceed the bound out of the cache. *given: they would stay if the
 * breath were longer. */
static hk_range_t shed_locked(size_t bytes, bool *given) {
    const size_t now = hk_region_cached();
    if (now <= bound() || !hk_mappings_may(&hk_region_no_cuts))
        return (hk_range_t){0};
    const bool breathes = may_breathe_locked();
    const size_t allowed = breathes ? hk_breath_allows(bound()) : bound();
    const size_t most = breathes ? hk_min(allowed, less_than_once_locked()) : allowed;
    *given = breathes && allowed == most;
    bytes = hk_min(bytes, hk_minus(now, most));
    return bytes == 0 ? (hk_range_t){0} : cut_end_locked(bytes, TOP);
}

/* False: the system refused to unmap. The pages have gone all the same, and the addresses are cached
 * or, if the cache cannot take them, lost. */
static bool give_up(hk_range_t range) {
    /* where addresses are bounded, mappings are not what is short */
    if ((hk_region_is_bounded() || hk_mappings_may_be_taken()) && unmap(range))
        return true;
    hk_store_relaxed(&hk_region_no_cuts, (unsigned)HK_PATIENCE);
    hk_advise(range.start, range.bytes, HK_PURGE);
    hk_lock(&lock);
    const bool kept = !hk_range_is_exact(&range) && insert_locked(range);
    if (kept)
        hk_map_set(range.start, range.bytes / HK_SLICE, HK_KIND_FREE);
    hk_unlock(&lock);
    if (kept || unmap(range)) /* it may be a whole mapping: that takes none */
        return !kept;
    hk_held_drop(range.bytes);
    return false;
}

/* Ranges on their way back to the system are in no thread's reach, and are held until they have
 * gone. */
static _Atomic size_t leaving; /* atomic: any thread; bytes; written before the lock is given up */

static bool unmap_leaving(hk_range_t range) {
    const bool gone = give_up(range);
    hk_sub_relaxed(&leaving, range.bytes);
    return gone;
}

bool hk_region_unmap(hk_range_t range) {
    hk_add_relaxed(&leaving, range.bytes);
    return unmap_leaving(range);
}

bool hk_region_await(void) {
    enum { TRIES = 2000 }; /* about 100 ms: in a child made past the fork handlers it is for ever */
    const bool any = hk_load_relaxed(&leaving) != 0;
    hk_assert(hk_lock_may_take(HK_RANK_REGION)); /* which a thread that unmaps may want */
    for (unsigned tries = 0; hk_load_relaxed(&leaving) != 0 && tries < TRIES;)
        tries += hk_lock_pause(tries);
    return any;
}

void hk_region_keep(hk_range_t range) {
    hk_walk(hk_range_is_valid(range));
    hk_walk(hk_map_is_valid(range.start, hk_slices_of(range.bytes)));
    /* set before the range can be taken again, so that a second free of the block is recognised */
    hk_map_set(range.start, hk_slices_of(range.bytes), HK_KIND_FREE);
    hk_lock(&lock);
    bool kept = !hk_range_is_exact(&range) && insert_locked(range);
    /* at most twice as much as came, if later looks give back the rest */
    size_t left = is_looked_at() ? 2 * range.bytes : SIZE_MAX;
    bool given = false;
    hk_range_t shed = kept ? shed_locked(left, &given) : range;
    while (shed.bytes != 0) {
        hk_add_relaxed(&leaving, shed.bytes);
        hk_unlock(&lock);
        if (unmap_leaving(shed) && given)
            hk_breath_given(shed.bytes, false);
        hk_lock(&lock);
        left = hk_minus(left, shed.bytes);
        shed = shed_locked(left, &given);
    }
    hk_unlock(&lock);
}

/* ---- giving it up ---- */

size_t hk_region_purge(size_t most, unsigned *calls) {
    size_t total = 0;
    hk_assert(hk_lock_may_take(HK_RANK_REGION));
    for (const char *limit = TOP; total < most; ++*calls) {
        hk_lock(&lock);
        hk_range_t range = cut_end_locked(most - total, limit);
        hk_add_relaxed(&leaving, range.bytes);
        hk_unlock(&lock);
        if (range.bytes == 0)
            break;
        if (unmap_leaving(range))
            total += range.bytes;
        else
            limit = range.start;
    }
    return total;
}

size_t hk_region_trim(void) {
    unsigned calls = 0;
    return hk_region_purge(SIZE_MAX, &calls);
}
