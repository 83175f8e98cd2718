#include "backend/usage.h"

#include "backend/heap.h"
#include "backend/hoard.h"
#include "backend/large.h"
#include "backend/limit.h"
#include "backend/meta.h"
#include "backend/pack.h"
#include "backend/pagemap.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "backend/slab.h"
#include "backend/superslab.h"
#include "os/os.h"

/* ---- our own records ---- */

/* Counts blocks that were freed remotely and not collected, and adds their bits to `free` unless
 * that is NULL. Only a pending slab has any, except between the two steps of a remote free. */
static unsigned take_remote(const hk_slab_t *slab, const hk_class_t *c, uint64_t *free) {
    unsigned count = 0;
    hk_assert(c->blocks != 0);
    for (unsigned w = 0;
         hk_load_relaxed(&hk_remote_of(slab)->pending) != 0 && w < hk_class_words(c); w++) {
        uint64_t bits = hk_load_relaxed(&hk_remote_bits(slab, c)[w]);
        count += hk_ones(bits);
        if (free != NULL)
            free[w] |= bits;
    }
    return count;
}

typedef struct {
    hak_stats_t *stats;
    size_t active[HK_CLASS_COUNT]; /* blocks that are not free in their slab */
} count_t;

static void add_whole(hak_stats_t *stats, unsigned of, size_t blocks, size_t bytes) {
    hak_stats_band_t *band = &stats->bands[of];
    band->blocks += blocks;
    band->allocated += bytes;
    band->active += bytes;
    band->carved += bytes;
}

/* The free count is read before the remote bits: a collection in between then hides free blocks,
 * but counts none twice. */
static void count_slab(const hk_slab_t *slab, void *argument) {
    count_t *count = argument;
    const hk_class_t *c = &hk_classes[slab->cls];
    if (slab->cls == 0) {
        if (hk_map_kind(slab->base) != HK_KIND_FREE) /* else on a stash, or put aside */
            add_whole(count->stats, HAK_BAND_LARGE, 1, slab->slices * HK_SLICE);
        return;
    }
    hak_stats_band_t *band = &count->stats->bands[c->band];
    size_t free = hk_load_acquire(&slab->free);
    hk_assert(free <= c->blocks); /* or the subtraction wraps */
    /* a slab has an owner once it is carved: before that it may have no bitmaps yet */
    const bool carved = hk_load_acquire(&slab->owner) != NULL;
    size_t remote = carved ? hk_min(take_remote(slab, c, NULL), c->blocks - free) : 0;
    free += remote;
    count->active[slab->cls] += c->blocks - free;
    band->active += (c->blocks - free) * c->size;
    band->free += free * c->size;
    band->remote += remote * c->size;
    band->carved += slab->slices * HK_SLICE;
}

static void add_bytes(const void *start, size_t bytes, void *argument) {
    (void)start;
    *(uint64_t *)argument += bytes;
}

/* Blocks that move from a magazine to their slab meanwhile may be counted in both. */
void hk_usage_count(hak_stats_t *stats, const size_t held[HK_CLASS_COUNT]) {
    count_t count = {.stats = stats};
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    hk_lock(&hk_purge_lock); /* claimed blocks would look as if they were in use */
    hk_pool_visit(count_slab, &count);
    const hk_pack_stats_t packs = hk_pack_stats();
    hk_unlock(&hk_purge_lock);
    for (unsigned cls = 1; cls < hk_class_end(); cls++) {
        hak_stats_band_t *band = &stats->bands[hk_classes[cls].band];
        const size_t waiting = hk_min(held[cls], count.active[cls]);
        band->blocks += count.active[cls] - waiting;
        band->allocated += (count.active[cls] - waiting) * hk_classes[cls].size;
        band->magazines += waiting * hk_classes[cls].size;
    }
    const hk_singles_t single = hk_singles();
    const size_t shared = hk_pool_mapped() + packs.packs * HK_UNIT;
    const size_t huge = hk_minus(hk_region_live(), shared);
    add_whole(stats, HAK_BAND_LARGE, packs.blocks, packs.bytes);
    add_whole(stats, HAK_BAND_HUGE, hk_large_huge_blocks() + single.blocks, huge + single.bytes);
    const size_t cached = hk_region_cached();
    stats->cached = cached + single.kept;
    hk_meta_visit(add_bytes, &stats->metadata);
    hk_map_visit_own(add_bytes, &stats->metadata);
    stats->metadata += hk_own_written();
    stats->mapped = shared + huge + cached + stats->metadata + single.bytes + single.kept;
    stats->peak_mapped = hk_max(hk_mapped_peak(), stats->mapped);
}

/* ---- figures from the system ---- */

/* For one unit at a time, with OS pages of 4 KiB or more. */
enum { MOST_PAGES = HK_UNIT / 4096 };

typedef struct {
    /* bytes; `free`: of the resident ones, on OS pages with nothing live; `lazy`: of these */
    size_t resident, free, lazy;
    bool (*goes_on)(void *);
    void *argument;
    bool ended;
    hk_os_look_t look;
    unsigned char pages[MOST_PAGES];
} walk_t;

/* Looks at a range of at most a unit. */
static bool look_at(walk_t *walk, const void *start, size_t bytes) {
    hk_assert(bytes / hk_os_page_size() <= MOST_PAGES);
    return hk_os_look(&walk->look, start, bytes, walk->pages);
}

static bool may_go_on(walk_t *walk) {
    walk->ended = walk->ended || !walk->goes_on(walk->argument);
    return !walk->ended;
}

/* Resident bytes among the n OS pages from the first-th one looked at. */
static size_t resident(const walk_t *walk, size_t first, size_t n) {
    size_t count = 0;
    hk_assert(first + n <= MOST_PAGES);
    for (size_t i = first; i < first + n; i++) {
        hk_assert(walk->pages[i] <= 1); /* they are added up */
        count += walk->pages[i];
    }
    return count * hk_os_page_size();
}

static void measure_slices(const char *start, size_t slices, const _Atomic uint8_t *kinds,
                           void *argument) {
    walk_t *walk = argument;
    const size_t per_slice = HK_SLICE / hk_os_page_size();
    if (!may_go_on(walk) || !look_at(walk, start, slices * HK_SLICE))
        return; /* or the range was given back meanwhile */
    for (size_t i = 0; i < slices; i++) {
        size_t bytes = resident(walk, i * per_slice, per_slice);
        walk->resident += bytes;
        if (hk_load_relaxed(&kinds[i]) == HK_KIND_FREE)
            walk->free += bytes;
    }
}

static void measure_own(const void *start, size_t bytes, void *argument) {
    walk_t *walk = argument;
    for (size_t at = 0; at < bytes; at += HK_UNIT) {
        size_t part = hk_min(bytes - at, HK_UNIT);
        if (look_at(walk, (const char *)start + at, part))
            walk->resident += resident(walk, 0, part / hk_os_page_size());
    }
}

/* The slab's OS pages with nothing live; *lazy: those that the system may take. 0 also if the slab
 * has no owner at the moment. */
static uint64_t free_pages(const hk_slab_t *slab, char **base, uint64_t *lazy) {
    uint64_t bits[HK_BITMAP_WORDS];
    hk_heap_t *owner = hk_heap_lock_owner(slab);
    if (owner == NULL)
        return 0;
    hk_walk(hk_slab_is_valid(slab)); /* the lock is its owner's */
    const hk_class_t *c = &hk_classes[slab->cls];
    memcpy(bits, slab->bits, hk_class_words(c) * sizeof *bits);
    take_remote(slab, c, bits);
    *base = slab->base;
    *lazy = hk_load_relaxed(&slab->lazy);
    const uint64_t pages = hk_slab_free_pages(slab, bits);
    hk_unlock(&owner->lock);
    return pages;
}

static void measure_slab(const hk_slab_t *slab, walk_t *walk) {
    char *base;
    uint64_t lazy, free = free_pages(slab, &base, &lazy);
    const size_t last = 63 - (size_t)__builtin_clzll(free | 1);
    if (free == 0 || !look_at(walk, base, (last + 1) * hk_os_page_size()))
        return;
    for (; free != 0; free &= free - 1) {
        size_t i = (size_t)__builtin_ctzll(free), bytes = resident(walk, i, 1);
        walk->free += bytes;
        if (lazy >> i & 1)
            walk->lazy += bytes;
    }
}

/* The superslab may be less than a unit. */
static void measure_lazy_slices(const hk_pool_cursor_t *cursor, walk_t *walk) {
    const size_t per_slice = HK_SLICE / hk_os_page_size();
    const size_t last = 31 - (size_t)__builtin_clz(cursor->lazy | 1);
    if (cursor->lazy == 0 || !look_at(walk, cursor->base, (last + 1) * HK_SLICE))
        return;
    for (unsigned i = 0; i < HK_SLICES; i++)
        if (cursor->lazy >> i & 1)
            walk->lazy += resident(walk, i * per_slice, per_slice);
}

static bool measure_next(hk_pool_cursor_t *cursor, walk_t *walk) {
    if (!may_go_on(walk))
        return false;
    hk_lock(&hk_purge_lock);
    bool more = hk_pool_next(cursor);
    if (more) {
        measure_lazy_slices(cursor, walk);
        for (unsigned i = 0; i < cursor->count; i++)
            measure_slab(cursor->slabs[i], walk);
    }
    hk_unlock(&hk_purge_lock);
    return more;
}

bool hk_usage_measure(hak_stats_t *stats, bool (*goes_on)(void *), void *argument) {
    hk_assert(hk_lock_may_take(HK_RANK_PURGE));
    walk_t walk = {.goes_on = goes_on, .argument = argument, .look = hk_os_look_begin()};
    hk_map_visit(measure_slices, &walk);
    for (hk_pool_cursor_t cursor = {0}; measure_next(&cursor, &walk);)
        continue;
    if (walk.ended) {
        hk_os_look_end(&walk.look);
        return false;
    }
    /* other threads may have mapped memory since `mapped` was counted */
    const size_t free = hk_min(walk.free, hk_min(walk.resident, stats->mapped));
    stats->lazy = hk_min(walk.lazy, free);
    stats->dirty = free - stats->lazy;
    hk_map_visit_own(measure_own, &walk);
    hk_meta_visit(measure_own, &walk);
    hk_hoard_visit(measure_own, &walk);
    hk_os_look_end(&walk.look);
    walk.resident += hk_own_written();
    stats->resident = hk_min(walk.resident, stats->mapped);
    stats->retained = stats->mapped - stats->resident;
    return true;
}
