#include "backend/region.h"

#include <limits.h>
#include <string.h>

#include "backend/advise.h"
#include "backend/limit.h"
#include "backend/pagemap.h"
#include "base/lock.h"
#include "base/random.h"
#include "config/config.h"
#include "os/os.h"
#include "stats/counters.h"
#include "stats/sections.h"

enum { FREE_SLOTS = 256, MOST_GATHERED = 32, NONE = FREE_SLOTS };

/* After a refusal for want of mappings, so many calls pass before moving or cutting is tried
 * again. */
enum { PATIENCE = 1024 };

/* What a process must have before the system is asked for the first time. */
#define FIRST_LOOK (4 * HK_MIB)

/* With a lower limit from the start on, every unit counts. (One of addresses refuses the flat map.) */
#define LITTLE ((size_t)2 << 30)

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_REGION);
/* lock: region, down to peak. Sorted by address, neighbours joined. Invariant:
 * cached == sum of their bytes. */
static hk_range_t free_ranges[FREE_SLOTS];
static unsigned free_count;
static _Atomic size_t cached; /* atomic: also read without the lock, as is live */
static _Atomic size_t live;
static size_t peak; /* the most that both have been together */
static size_t next_look = FIRST_LOOK;

atomic_bool hk_region_bounded;
atomic_bool hk_region_look_is_due;

/* atomic: any thread. Calls left that do without moving and cutting. */
static atomic_uint no_moves, no_cuts;

HK_INLINE bool may(atomic_uint *patience) {
    unsigned left = hk_load_relaxed(patience);
    if (HK_UNLIKELY(left != 0))
        hk_store_relaxed(patience, left - 1); /* two threads may count one call: all the same */
    return left == 0;
}

HK_INLINE bool is_exact(const hk_range_t *r) { return r->bytes % HK_UNIT != 0; }
HK_INLINE size_t slices_of(size_t bytes) { return (bytes + HK_SLICE - 1) / HK_SLICE; }

HK_INLINE char *end_of(const hk_range_t *r) { return r->start + r->bytes; }

/* A range as it is handed out and taken back: of OS pages, from a unit's start on. */
#if HK_DEBUG
static void is_range(hk_range_t r) {
    hk_assert(hk_is_aligned((uintptr_t)r.start, HK_UNIT) && r.bytes != 0);
    hk_assert(hk_is_aligned(r.bytes, hk_os_page_size()));
    hk_assert((uintptr_t)r.start + r.bytes > (uintptr_t)r.start);
}

/* The equation of the cache. */
static void cache_is_valid_locked(void) {
    size_t sum = 0;
    hk_assert(hk_lock_is_mine(&lock) && free_count <= FREE_SLOTS);
    for (unsigned i = 0; i < free_count; i++) {
        const hk_range_t *r = &free_ranges[i];
        is_range(*r);
        hk_assert(!is_exact(r));
        /* sorted and apart; where one ended at the next one's start they would have been joined */
        hk_assert(i == 0 || end_of(r - 1) < r->start);
        sum += r->bytes;
    }
    hk_assert(sum == hk_region_cached());
    hk_assert(hk_region_live() + hk_region_cached() <= peak);
}
#else
HK_INLINE void is_range(hk_range_t r) { (void)r; }
HK_INLINE void cache_is_valid_locked(void) {}
#endif

/* ---- the free ranges ---- */

static void raise_peak_locked(void) { peak = hk_max(peak, hk_region_live() + hk_region_cached()); }

static void delete_locked(unsigned i) {
    hk_assert(hk_lock_is_mine(&lock) && i < free_count);
    hk_sub_relaxed(&cached, free_ranges[i].bytes);
    free_count--;
    memmove(&free_ranges[i], &free_ranges[i + 1], (free_count - i) * sizeof free_ranges[0]);
}

/* False where there is no slot left. */
static bool insert_locked(hk_range_t range) {
    is_range(range);
    hk_assert(hk_lock_is_mine(&lock) && !is_exact(&range));
    unsigned i = 0;
    while (i < free_count && free_ranges[i].start < range.start)
        i++;
    /* what overlaps a free range has been given back twice, or was never handed out */
    hk_assert(i == free_count || end_of(&range) <= free_ranges[i].start);
    hk_assert(i == 0 || end_of(&free_ranges[i - 1]) <= range.start);
    if (i < free_count && end_of(&range) == free_ranges[i].start) {
        range.bytes += free_ranges[i].bytes;
        range.mixed = true;
        delete_locked(i);
    }
    if (i > 0 && end_of(&free_ranges[i - 1]) == range.start) {
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
    /* fresh memory may come here at once, where pages could not be moved into it */
    raise_peak_locked();
    cache_is_valid_locked();
    return true;
}

HK_INLINE char *aligned_start(const hk_range_t *r, size_t align) {
    return (char *)hk_align_up((uintptr_t)r->start, align);
}

/* The smallest free range in which an aligned range of `bytes` fits. */
static unsigned best_fit_locked(size_t bytes, size_t align) {
    hk_assert(hk_lock_is_mine(&lock));
    unsigned best = NONE;
    for (unsigned i = 0; i < free_count; i++) {
        const hk_range_t *r = &free_ranges[i];
        size_t skipped = (size_t)(aligned_start(r, align) - r->start);
        if (r->bytes >= bytes && r->bytes - bytes >= skipped &&
            (best == NONE || r->bytes < free_ranges[best].bytes))
            best = i;
    }
    return best;
}

/* Takes [start, start+bytes) out of free range i. A rest that finds no slot is returned, for
 * unmapping. */
static hk_range_t cut_locked(unsigned i, char *start, size_t bytes) {
    hk_range_t r = free_ranges[i];
    hk_assert(i < free_count && bytes != 0 && bytes % HK_UNIT == 0);
    hk_assert(start >= r.start && start + bytes <= end_of(&r));
    hk_range_t before = {r.start, (size_t)(start - r.start), r.mixed};
    hk_range_t behind = {start + bytes, r.bytes - bytes - before.bytes, r.mixed};
    delete_locked(i);
    if (before.bytes != 0)
        insert_locked(before); /* has the slot just freed */
    if (behind.bytes != 0 && !insert_locked(behind))
        return behind;
    return (hk_range_t){0};
}

/* Takes free ranges, the largest first, that together hold at most `bytes`. */
static unsigned gather_locked(size_t bytes, hk_range_t *out) {
    unsigned n = 0;
    while (n < MOST_GATHERED && bytes > 0 && free_count > 0) {
        unsigned largest = 0;
        for (unsigned i = 1; i < free_count; i++)
            if (free_ranges[i].bytes > free_ranges[largest].bytes)
                largest = i;
        hk_range_t *r = &free_ranges[largest];
        out[n] = (hk_range_t){r->start, hk_min(bytes, r->bytes), r->mixed};
        cut_locked(largest, out[n].start, out[n].bytes); /* the rest has the slot just freed */
        bytes -= out[n++].bytes;
    }
    cache_is_valid_locked();
    return n;
}

/* False: refused, because the mapping would have to be cut and the process has no more to spare. */
static bool unmap(hk_range_t range) {
    is_range(range);
    hk_assert(hk_lock_may_take(HK_RANK_REGION)); /* the system is not called with the lock held */
    hk_map_set(range.start, slices_of(range.bytes), HK_KIND_FOREIGN);
    if (!hk_os_unmap(range.start, range.bytes))
        return false;
    hk_held_drop(range.bytes);
    hk_count(region_unmaps, 1);
    return true;
}

static void add_live_locked(size_t bytes) {
    hk_assert(hk_lock_is_mine(&lock));
    hk_add_relaxed(&live, bytes);
    raise_peak_locked();
    if (HK_UNLIKELY(hk_region_live() >= next_look)) {
        next_look = 2 * hk_region_live();
        hk_store_relaxed(&hk_region_look_is_due, true);
    }
}

static size_t bound_locked(void) {
    return hk_max(hk_option(region_cache_mb) * HK_MIB, hk_region_live() / 4);
}

/* Takes up to `most` bytes, in whole units, off the end of what is free below `limit`; none are 0
 * bytes. */
static hk_range_t cut_end_locked(size_t most, const char *limit) {
    unsigned i = free_count;
    while (i > 0 && free_ranges[i - 1].start >= limit)
        i--;
    if (i == 0)
        return (hk_range_t){0};
    hk_assert(most != 0); /* nothing is no range */
    hk_range_t last = free_ranges[i - 1];
    const char *end = end_of(&last) < limit ? end_of(&last) : limit;
    size_t bytes = hk_align_up(hk_min((size_t)(end - last.start), most), HK_UNIT);
    char *start = last.start + (end - last.start) - bytes;
    if (end != end_of(&last) && free_count == FREE_SLOTS)
        return (hk_range_t){0}; /* what lies behind would have no slot */
    cut_locked(i - 1, start, bytes);
    return (hk_range_t){start, bytes, last.mixed};
}

#define TOP ((const char *)UINTPTR_MAX)

/* Takes the end of a free range out of the cache, as far as the cache is over its bound. */
static hk_range_t shed_locked(void) {
    size_t bound = bound_locked(), now = hk_region_cached();
    if (now <= bound || !may(&no_cuts))
        return (hk_range_t){0};
    return cut_end_locked(now - bound, TOP);
}

/* Unmaps a range or, where that is refused, gives up its pages and keeps its addresses for reuse.
 * (If that is not possible either they are lost, and nothing else.) False: refused. */
static bool unmap_or_keep(hk_range_t range) {
    if (unmap(range))
        return true;
    hk_store_relaxed(&no_cuts, (unsigned)PATIENCE);
    hk_advise(&(hk_os_range_t){range.start, range.bytes}, 1, HK_PURGE);
    hk_lock(&lock);
    if (!is_exact(&range) && insert_locked(range))
        hk_map_set(range.start, range.bytes / HK_SLICE, HK_KIND_FREE);
    else
        hk_held_drop(range.bytes);
    hk_unlock(&lock);
    return false;
}

/* Puts a range into the cache, and unmaps what is then over the bound. */
static void keep_or_unmap(hk_range_t range) {
    hk_lock(&lock);
    is_range(range);
    hk_walk(hk_map_is_valid(range.start, slices_of(range.bytes)));
    /* before it can be taken again; a second free of the block is then known for one */
    hk_map_set(range.start, slices_of(range.bytes), HK_KIND_FREE);
    bool kept = !is_exact(&range) && insert_locked(range);
    hk_range_t shed = kept ? shed_locked() : range;
    while (shed.bytes != 0) {
        hk_unlock(&lock);
        unmap_or_keep(shed);
        hk_lock(&lock);
        shed = shed_locked();
    }
    hk_unlock(&lock);
}

/* ---- fresh memory ---- */

/* Where ranges lie by chance: in every other unit of a window, which lies by chance too. One that is
 * small next to the address space keeps the page map's tables few. 46 bits of addresses is what
 * processes have at least; where there are fewer the system places them as it likes. */
#define WINDOW ((uint64_t)1 << 40)
#define ADDRESSES ((uint64_t)1 << 46)
static _Atomic uint64_t window; /* atomic: any thread; 0: nothing is scattered */
static _Atomic uint64_t places; /* atomic: any thread */

void hk_region_scatter(uint64_t seed) {
    hk_store_relaxed(&places, seed);
    const uint64_t room = ADDRESSES / 2 - WINDOW; /* the second quarter of it, and the third */
    const uint64_t unit = hk_random_shared(&places, (uint32_t)(room / HK_UNIT));
    hk_store_relaxed(&window, ADDRESSES / 4 + unit * HK_UNIT);
}

bool hk_region_scatters(void) { return hk_load_relaxed(&window) != 0; }

/* For as many calls as no process makes near that limit. */
void hk_region_save_mappings(void) {
    hk_store_relaxed(&window, (uint64_t)0);
    hk_store_relaxed(&no_moves, UINT_MAX);
    hk_store_relaxed(&no_cuts, UINT_MAX);
}

static char *map_somewhere(size_t bytes, size_t align) {
    enum { TRIES = 4 };
    const uint64_t start = hk_load_relaxed(&window);
    char *p = NULL;
    if (HK_UNLIKELY(start != 0) && bytes == HK_UNIT && align == HK_UNIT)
        for (unsigned i = 0; i < TRIES && p == NULL; i++) {
            const uint64_t place = hk_random_shared(&places, (uint32_t)(WINDOW / HK_UNIT / 2));
            p = hk_os_map_at(start + place * 2 * HK_UNIT, bytes);
        }
    return p != NULL ? p : hk_os_map(bytes, align);
}

/* The cache is given up before the request is. So many bytes of pages are about to be moved here. */
static bool map_fresh(size_t bytes, size_t align, size_t dense, size_t moving, hk_range_t *range) {
    if (!hk_held_take(bytes, moving) && (hk_region_trim() == 0 || !hk_held_take(bytes, moving)))
        return false;
    char *start = map_somewhere(bytes, align);
    if (start == NULL && hk_region_trim() != 0)
        start = hk_os_map(bytes, align);
    if (start == NULL || !hk_map_commit(start, bytes)) {
        if (start != NULL)
            hk_os_unmap(start, bytes);
        hk_held_drop(bytes);
        return false;
    }
    hk_count(region_maps, 1);
    const size_t huge = hk_option(thp) != 0 ? dense : 0;
    if (huge != 0)
        hk_advise(&(hk_os_range_t){start, huge}, 1, HK_HUGE_PAGES);
    if (huge != bytes) /* where the system gives them to everybody they have to be refused */
        hk_advise(&(hk_os_range_t){start + huge, bytes - huge}, 1, HK_NO_HUGE_PAGES);
    *range = (hk_range_t){start, bytes, huge != 0 && huge != bytes};
    hk_assert(hk_is_aligned((uintptr_t)start, align));
    hk_walk(hk_map_is_valid(start, slices_of(bytes)));
    return true;
}

/* Moves a free range to `to`: at once or, where it is several kernel mappings, unit by unit. (Older
 * kernels refuse several at once, having unmapped the target.) Returns the bytes moved. If they are
 * not all, the rest is in the cache again, and the next step's place may be a hole, which another
 * thread's mapping may be in by now. */
static size_t move_free(hk_range_t from, char *to) {
    is_range(from);
    hk_assert(hk_is_aligned((uintptr_t)to, HK_UNIT));
    hk_map_set(from.start, from.bytes / HK_SLICE, HK_KIND_FOREIGN);
    size_t step = from.mixed ? HK_UNIT : from.bytes;
    for (size_t at = 0; at < from.bytes; at += step) {
        bool moved = hk_os_move(from.start + at, step, to + at, step);
        hk_held_drop(step); /* the old place, or the hole */
        if (!moved) {
            hk_store_relaxed(&no_moves, (unsigned)PATIENCE);
            keep_or_unmap((hk_range_t){from.start + at, from.bytes - at, from.mixed});
            return at;
        }
    }
    return from.bytes;
}

/* ---- taking and giving ---- */

/* Moves the n gathered ranges to range->start + at, one behind the other; they are used up in any case.
 * Returns where they end; 0: there is a hole now, and all but that went back. */
static size_t fill(hk_range_t *range, size_t at, const hk_range_t *gathered, unsigned n) {
    range->mixed |= n != 0;
    for (unsigned i = 0; i < n; i++) {
        size_t moved = move_free(gathered[i], range->start + at);
        at += moved;
        if (moved == gathered[i].bytes)
            continue;
        /* what lies before and behind the hole goes back; so do the ranges not come to */
        size_t hole = gathered[i].mixed ? HK_UNIT : gathered[i].bytes;
        size_t behind = at + hole;
        if (at != 0)
            keep_or_unmap((hk_range_t){range->start, at, true});
        if (behind != range->bytes)
            keep_or_unmap((hk_range_t){range->start + behind, range->bytes - behind, false});
        while (++i < n)
            keep_or_unmap(gathered[i]);
        return 0;
    }
    return at;
}

static size_t bytes_of(const hk_range_t *ranges, unsigned n) {
    size_t bytes = 0;
    while (n != 0)
        bytes += ranges[--n].bytes;
    return bytes;
}

/* A fresh mapping with the n gathered ranges at `at`, behind what will be moved there. They are used up in any
 * case. */
static bool map_filled(size_t bytes, size_t align, size_t dense, size_t at,
                       const hk_range_t *gathered, unsigned n, hk_range_t *range) {
    if (map_fresh(bytes, align, dense, at + bytes_of(gathered, n), range))
        return n == 0 || fill(range, at, gathered, n) != 0;
    for (unsigned i = 0; i < n; i++)
        keep_or_unmap(gathered[i]);
    return false;
}

static bool take(size_t bytes, size_t align, size_t dense, hk_range_t *range, size_t *used) {
    hk_assert(bytes % HK_UNIT == 0 && bytes != 0);
    hk_assert(align % HK_UNIT == 0 && hk_is_pow2(align));
    hk_range_t gathered[MOST_GATHERED], homeless = {0};
    unsigned n = 0;
    hk_lock(&lock);
    unsigned fit = best_fit_locked(bytes, align);
    if (fit != NONE) {
        *range =
            (hk_range_t){aligned_start(&free_ranges[fit], align), bytes, free_ranges[fit].mixed};
        *used = bytes;
        homeless = cut_locked(fit, range->start, bytes);
    } else if (may(&no_moves)) {
        n = gather_locked(bytes, gathered);
    }
    hk_unlock(&lock);
    if (homeless.bytes != 0)
        unmap_or_keep(homeless);
    if (fit == NONE) {
        *used = bytes_of(gathered, n);
        if (!map_filled(bytes, align, dense, 0, gathered, n, range)) {
            *used = 0;
            if (n == 0 || !map_fresh(bytes, align, dense, 0, range))
                return false;
        }
    }
    is_range(*range);
    hk_assert(range->bytes == bytes && hk_is_aligned((uintptr_t)range->start, align));
    hk_assert(*used <= bytes);
    hk_lock(&lock);
    add_live_locked(bytes);
    hk_unlock(&lock);
    return true;
}

bool hk_region_take(size_t bytes, size_t align, size_t dense, hk_range_t *range, size_t *used) {
    bool taken;
    HK_TIMED(region_take, taken = take(bytes, align, dense, range, used));
    return taken;
}

bool hk_region_take_exact(size_t bytes, size_t align, hk_range_t *range) {
    hk_assert(bytes % HK_UNIT != 0 && bytes % hk_os_page_size() == 0);
    hk_assert(align % HK_UNIT == 0 && hk_is_pow2(align));
    if (!map_fresh(bytes, align, 0, 0, range))
        return false;
    hk_lock(&lock);
    add_live_locked(bytes);
    hk_unlock(&lock);
    return true;
}

/* Read once: later a sandbox may kill for asking. */
static size_t data_limit = SIZE_MAX;

void hk_region_init(void) {
    data_limit = (size_t)hk_os_data_limit();
    if (!hk_map_has_flat() || data_limit < LITTLE)
        hk_store_relaxed(&hk_region_bounded, true);
}

/* Far from its limit a process need not save: what it has got by then is a small part of the whole. */
size_t hk_region_plenty(size_t wanted) {
    enum { TIMES = 8 };
    return hk_align_up(hk_max(TIMES * hk_max(hk_region_live(), FIRST_LOOK), wanted), HK_UNIT);
}

bool hk_region_look_at_bounds(size_t wanted) {
    hk_store_relaxed(&hk_region_look_is_due, false);
    const size_t plenty = hk_region_plenty(wanted);
    if (hk_region_is_bounded() ||
        (data_limit >= plenty && !hk_limit_is_near() && hk_os_grants_commitment(plenty)))
        return false;
    hk_store_relaxed(&hk_region_bounded, true);
    return true;
}

void hk_region_give(hk_range_t range) {
    hk_lock(&lock);
    hk_assert(range.bytes <= hk_region_live()); /* no more than was handed out */
    hk_sub_relaxed(&live, range.bytes);
    hk_unlock(&lock);
    HK_TIMED(region_give, keep_or_unmap(range));
}

/* Kind bytes of what goes are cleared first, page-map entries of what comes can be set then. */
static bool resize_exact(hk_range_t *range, size_t new_bytes) {
    hk_assert(new_bytes != 0 && hk_is_aligned(new_bytes, hk_os_page_size()));
    size_t before = range->bytes, kept = slices_of(hk_min(before, new_bytes));
    const size_t more = new_bytes - hk_min(before, new_bytes);
    if (more != 0 && (!hk_map_commit(range->start, new_bytes) || !hk_held_take(more, 0)))
        return false;
    if (slices_of(before) > kept)
        hk_map_set(range->start + kept * HK_SLICE, slices_of(before) - kept, HK_KIND_FOREIGN);
    const bool resized = hk_os_resize(range->start, before, new_bytes);
    hk_held_drop(resized ? before + more - new_bytes : more);
    if (!resized)
        return false;
    hk_lock(&lock);
    hk_sub_relaxed(&live, before);
    add_live_locked(new_bytes);
    hk_unlock(&lock);
    hk_count(touched, new_bytes - hk_min(before, new_bytes));
    range->bytes = new_bytes;
    return true;
}

bool hk_region_extend(hk_range_t *range, size_t new_bytes) {
    is_range(*range);
    if (is_exact(range))
        return resize_exact(range, new_bytes);
    hk_assert(new_bytes > range->bytes);
    size_t more = new_bytes - range->bytes;
    if (more % HK_UNIT != 0) /* the cache has whole units */
        return false;
    hk_range_t homeless = {0};
    bool found = false;
    hk_lock(&lock);
    for (unsigned i = 0; i < free_count && !found; i++) {
        found = free_ranges[i].start == end_of(range) && free_ranges[i].bytes >= more;
        if (found)
            homeless = cut_locked(i, end_of(range), more);
    }
    if (found) {
        range->bytes = new_bytes;
        range->mixed = true;
        add_live_locked(more);
    }
    hk_unlock(&lock);
    if (homeless.bytes != 0)
        unmap_or_keep(homeless);
    return found;
}

/* Moves the pages of a block, which are several mappings, unit by unit. Where the system stops half-way
 * all of it is copied to a third place, which is there before the first step. */
static bool move_units(hk_range_t *from, hk_range_t *to) {
    hk_range_t third;
    size_t at = 0;
    if (!map_fresh(to->bytes, HK_UNIT, 0, to->bytes + from->bytes, &third))
        return false;
    while (at < from->bytes && hk_os_move(from->start + at, HK_UNIT, to->start + at, HK_UNIT))
        at += HK_UNIT;
    hk_held_drop(at);
    if (at != 0 && at < from->bytes) {
        const size_t behind = at + HK_UNIT; /* a hole, or about to be */
        hk_held_drop(HK_UNIT);
        memcpy(third.start, to->start, at);
        memcpy(third.start + at, from->start + at, from->bytes - at);
        keep_or_unmap((hk_range_t){to->start, at, true});
        keep_or_unmap((hk_range_t){to->start + behind, to->bytes - behind, true});
        keep_or_unmap((hk_range_t){from->start + at, from->bytes - at, true});
        *to = third;
        hk_store_relaxed(&no_moves, (unsigned)PATIENCE);
        return true;
    }
    unmap_or_keep(third);
    return at != 0;
}

/* With pages from the cache at its end the new place is several mappings. */
static bool move_block(hk_range_t *from, hk_range_t *to) {
    if (from->mixed) {
        to->mixed = true;
        return move_units(from, to);
    }
    if (!hk_os_move(from->start, from->bytes, to->start, to->mixed ? from->bytes : to->bytes))
        return false;
    hk_held_drop(from->bytes);
    return true;
}

/* What the block grows by comes from the cache first. */
bool hk_region_move(hk_range_t *range, size_t wanted, size_t new_bytes) {
    is_range(*range);
    hk_assert(new_bytes >= wanted && hk_is_aligned(new_bytes, hk_os_page_size()));
    hk_assert(wanted > range->bytes);
    /* else a free in another thread would still find the block while its pages move */
    hk_assert(hk_map_kind(range->start) == HK_KIND_FOREIGN);
    hk_range_t to, gathered[MOST_GATHERED];
    unsigned n = 0;
    if (!may(&no_moves))
        return false;
    if (!is_exact(range) && wanted % HK_UNIT == 0) {
        hk_lock(&lock);
        n = gather_locked(wanted - range->bytes, gathered);
        hk_unlock(&lock);
    }
    const size_t fresh = new_bytes - range->bytes - bytes_of(gathered, n);
    if (!map_filled(new_bytes, HK_UNIT, 0, range->bytes, gathered, n, &to))
        return false;
    if (!move_block(range, &to)) {
        hk_store_relaxed(&no_moves, (unsigned)PATIENCE);
        /* what the system was asked for last may be gone, and be somebody else's by now: it is left alone */
        const size_t gone = range->mixed ? HK_UNIT : to.mixed ? range->bytes : new_bytes;
        hk_held_drop(gone);
        if (gone != new_bytes)
            keep_or_unmap((hk_range_t){to.start + gone, new_bytes - gone, true});
        return false;
    }
    hk_lock(&lock);
    add_live_locked(new_bytes - range->bytes);
    hk_unlock(&lock);
    hk_count(touched, fresh);
    *range = to;
    return true;
}

size_t hk_region_purge(size_t most, unsigned *calls) {
    size_t total = 0;
    hk_assert(hk_lock_may_take(HK_RANK_REGION));
    for (const char *limit = TOP; total < most; ++*calls) {
        hk_lock(&lock);
        hk_range_t range = cut_end_locked(most - total, limit);
        hk_unlock(&lock);
        if (range.bytes == 0)
            break;
        if (unmap_or_keep(range))
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

size_t hk_region_live(void) { return hk_load_relaxed(&live); }
size_t hk_region_cached(void) { return hk_load_relaxed(&cached); }

hk_region_stats_t hk_region_stats(void) {
    hk_lock(&lock);
    cache_is_valid_locked();
    hk_region_stats_t stats = {
        .live = hk_region_live(),
        .cached = hk_region_cached(),
        .peak = peak,
        .maps = hk_counted(region_maps),
        .unmaps = hk_counted(region_unmaps),
    };
    hk_unlock(&lock);
    return stats;
}
