#include "backend/pack.h"

#include "backend/heap.h"
#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "base/lock.h"
#include "base/report.h"

enum { GRAINS = HK_UNIT / HK_GRAIN };
#define LATE 0x8000u
_Static_assert(GRAINS < LATE, "no block is so long");

/* Equation: lengths[i] != 0 <=> a block of so many grains begins with grain i; within it all are 0. Behind
 * the last grain a block seems to begin. Lock: pack, for all that is not atomic. Type-stable. */
typedef struct {
    char *base;       /* NULL: without memory */
    unsigned used;    /* grains of blocks */
    unsigned longest; /* no run of other grains is longer */
    hk_stocked_t kept;
    /* atomic: written under the lock, but for LATE: the block is free, save for what needs the lock */
    _Atomic uint16_t lengths[GRAINS + 1];
} pack_t;

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_PACK);
static hk_stock_t stock = HK_STOCK(pack_t, kept);
static hk_pack_stats_t stats; /* lock: pack */

HK_INLINE unsigned grains_of(size_t n) { return (unsigned)((n + HK_GRAIN - 1) / HK_GRAIN); }

HK_INLINE unsigned length(const pack_t *pack, unsigned first) {
    return hk_load_relaxed(&pack->lengths[first]) % LATE;
}

/* ---- grains ---- */

/* So many grains from this one on are no block's. */
static unsigned room(const pack_t *pack, unsigned at) {
    unsigned end = at;
    while (length(pack, end) == 0)
        end++;
    return end - at;
}

/* The equation, and that `longest` bounds every run. */
HK_WALKER static void is_valid_locked(const pack_t *pack) {
    unsigned in_blocks = 0;
    hk_assert(hk_lock_is_mine(&lock));
    hk_assert(pack->base != NULL && hk_is_aligned((uintptr_t)pack->base, HK_UNIT));
    hk_assert(hk_map_owner(pack->base) == pack && length(pack, GRAINS) == 1);
    for (unsigned at = 0, n; at < GRAINS; at += n) {
        hk_assert(room(pack, at) <= pack->longest);
        at += room(pack, at);
        n = length(pack, at);
        hk_assert(at == GRAINS || n == 1 || room(pack, at + 1) >= n - 1);
        in_blocks += at != GRAINS ? n : 0;
    }
    hk_assert(pack->used == in_blocks);
    hk_assert(stats.packs != 0 && stats.bytes >= (size_t)in_blocks * HK_GRAIN);
    hk_assert(stats.bytes >= stats.blocks * HK_GRAIN && stats.bytes <= stats.packs * HK_UNIT);
}

/* The first grain of the live block at p. */
static unsigned block_at(const pack_t *pack, const void *p, hk_fatal_t if_not) {
    size_t offset = (size_t)((const char *)p - pack->base);
    unsigned first = (unsigned)(offset / HK_GRAIN);
    if (offset >= HK_UNIT || offset % HK_GRAIN != 0 || length(pack, first) == 0)
        hk_fatal(if_not, p);
    return first;
}

/* The block that begins there has n grains from now on, and had another number; 0: there is none. */
static void set_length_locked(pack_t *pack, unsigned first, unsigned n) {
    const unsigned had = length(pack, first);
    hk_store_relaxed(&pack->lengths[first], (uint16_t)n);
    pack->used += n - had;
    if (had != 0)
        pack->longest = GRAINS;
    stats.blocks += (size_t)(n != 0) - (had != 0);
    stats.bytes += ((size_t)n - had) * HK_GRAIN;
    hk_walk(is_valid_locked(pack));
}

/* From the first run of unused grains that is long enough; where there is none, the bound is then exact. */
static void *take_locked(pack_t *pack, unsigned n) {
    unsigned longest = 0;
    hk_assert(hk_lock_is_mine(&lock));
    if (pack->base == NULL || pack->longest < n)
        return NULL;
    for (unsigned at = 0, unused; at < GRAINS; at += unused + length(pack, at + unused)) {
        unused = room(pack, at);
        if (unused >= n) {
            set_length_locked(pack, at, n);
            return pack->base + (size_t)at * HK_GRAIN;
        }
        longest = (unsigned)hk_max(longest, unused);
    }
    pack->longest = longest;
    return NULL;
}

/* ---- packs ---- */

/* Before fresh memory is taken, what other threads have freed is collected: superslabs that empty. */
void *hk_pack_alloc(size_t n) {
    hk_assert(n != 0 && n <= HK_PACK_MOST);
    void *p = NULL;
    hk_lock(&lock);
    for (pack_t *at = hk_load_acquire(&stock.all); at != NULL && p == NULL; at = at->kept.next)
        p = take_locked(at, grains_of(n));
    hk_unlock(&lock);
    if (p != NULL)
        return p;
    hk_heap_collect_pending();
    hk_range_t range;
    size_t used;
    if (!hk_region_take(HK_UNIT, HK_UNIT, 0, &range, &used))
        return NULL;
    pack_t *pack = hk_stock_take(&stock);
    if (pack == NULL) {
        hk_region_give(range);
        return NULL;
    }
    void *before = hk_map_set_owner(range.start, pack);
    hk_assert(before == NULL); /* nobody else has the unit */
    hk_map_set(range.start, HK_UNIT / HK_SLICE, HK_KIND_PACKED);
    hk_lock(&lock);
    pack->base = range.start;
    pack->longest = GRAINS;
    hk_store_relaxed(&pack->lengths[GRAINS], (uint16_t)1);
    stats.packs++;
    p = take_locked(pack, grains_of(n));
    hk_unlock(&lock);
    return p;
}

size_t hk_pack_free(void *p) {
    pack_t *pack = hk_map_owner(p);
    hk_lock(&lock);
    const unsigned first = block_at(pack, p, HK_INVALID_FREE), n = length(pack, first);
    if (hk_load_relaxed(&pack->lengths[first]) & LATE)
        hk_fatal(HK_DOUBLE_FREE, p);
    set_length_locked(pack, first, 0);
    hk_range_t range = {0};
    if (pack->used == 0) {
        range = (hk_range_t){pack->base, HK_UNIT, false};
        pack->base = NULL;
        stats.packs--;
    }
    hk_unlock(&lock);
    if (range.bytes != 0) {
        hk_assert(hk_map_kind(range.start) == HK_KIND_PACKED);
        hk_map_set_owner(range.start, NULL);
        hk_region_give(range);
        hk_stock_put(&stock, pack);
    }
    return (size_t)n * HK_GRAIN;
}

void hk_pack_put_aside(void *p) {
    pack_t *pack = hk_map_owner(p);
    unsigned first = block_at(pack, p, HK_INVALID_FREE);
    if (hk_or_seq(&pack->lengths[first], (uint16_t)LATE) & LATE)
        hk_fatal(HK_DOUBLE_FREE, p);
}

size_t hk_pack_free_late(void) {
    size_t bytes = 0;
    for (pack_t *pack = hk_load_acquire(&stock.all); pack != NULL; pack = pack->kept.next)
        for (unsigned at = 0; at < GRAINS; at++)
            if ((hk_load_acquire(&pack->lengths[at]) & LATE) != 0 &&
                (hk_and_seq(&pack->lengths[at], (uint16_t)~LATE) & LATE) != 0)
                bytes += hk_pack_free(pack->base + (size_t)at * HK_GRAIN); /* and nobody else */
    return bytes;
}

size_t hk_pack_usable(const void *p) {
    pack_t *pack = hk_map_owner(p);
    return (size_t)length(pack, block_at(pack, p, HK_INVALID_POINTER)) * HK_GRAIN;
}

bool hk_pack_resize(void *p, size_t n) {
    hk_assert(n != 0 && n <= HK_PACK_MOST);
    pack_t *pack = hk_map_owner(p);
    hk_lock(&lock);
    const unsigned first = block_at(pack, p, HK_INVALID_POINTER), have = length(pack, first);
    const bool fits = grains_of(n) <= have + room(pack, first + have);
    if (fits)
        set_length_locked(pack, first, grains_of(n));
    hk_unlock(&lock);
    return fits;
}

hk_pack_stats_t hk_pack_stats(void) {
    hk_lock(&lock);
    hk_pack_stats_t now = stats;
    hk_unlock(&lock);
    return now;
}
