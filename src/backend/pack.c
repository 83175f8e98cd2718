#include "backend/pack.h"

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "base/lock.h"
#include "base/report.h"

enum { GRAINS = HK_UNIT / HK_GRAIN, WORDS = GRAINS / 64 };

/* Equation: lengths[i] != 0 <=> a block begins with grain i; used is the grains of all blocks,
 * which do not overlap. Lock: pack, for all that is not atomic. Type-stable. */
typedef struct pack {
    char *base;                   /* NULL: without memory */
    uint64_t used[WORDS];         /* 1: the grain is a block's */
    _Atomic uint64_t late[WORDS]; /* atomic: the block is free, but for what needs the lock */
    _Atomic uint16_t
        lengths[GRAINS]; /* atomic: written under the lock; of a live block, read by any */
    unsigned longest;    /* no run of unused grains is longer */
    struct pack *next;   /* const once set: all that ever were */
} pack_t;

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_PACK);
static pack_t *all;           /* lock: pack */
static hk_pack_stats_t stats; /* lock: pack */

HK_INLINE bool get(const uint64_t *bits, unsigned i) { return bits[i / 64] >> i % 64 & 1; }

HK_INLINE void set(uint64_t *bits, unsigned from, unsigned n, bool value) {
    hk_assert(n != 0 && from + n <= GRAINS);
    for (unsigned i = from; i < from + n; i++)
        bits[i / 64] = (bits[i / 64] & ~((uint64_t)1 << i % 64)) | (uint64_t)value << i % 64;
}

HK_INLINE unsigned grains_of(size_t n) { return (unsigned)((n + HK_GRAIN - 1) / HK_GRAIN); }

HK_INLINE unsigned length(const pack_t *pack, unsigned first) {
    return hk_load_relaxed(&pack->lengths[first]);
}

HK_INLINE void set_length(pack_t *pack, unsigned first, unsigned n) {
    hk_store_relaxed(&pack->lengths[first], (uint16_t)n);
}

#if HK_DEBUG
/* The equation, and that `longest` bounds every run. */
static void is_valid_locked(const pack_t *pack) {
    unsigned used = 0, in_blocks = 0, run = 0;
    hk_assert(hk_lock_is_mine(&lock));
    hk_assert(pack->base != NULL && hk_is_aligned((uintptr_t)pack->base, HK_UNIT));
    hk_assert(hk_map_owner(pack->base) == pack);
    for (unsigned w = 0; w < WORDS; w++)
        used += hk_ones(pack->used[w]);
    for (unsigned i = 0, end = 0; i < GRAINS; i++) {
        run = get(pack->used, i) ? 0 : run + 1;
        hk_assert(run <= pack->longest);
        if (length(pack, i) == 0)
            continue;
        hk_assert(i >= end && get(pack->used, i));
        end = i + length(pack, i);
        in_blocks += length(pack, i);
    }
    hk_assert(used == in_blocks);
    hk_assert(stats.packs != 0 && stats.bytes >= (size_t)used * HK_GRAIN);
    hk_assert(stats.bytes >= stats.blocks * HK_GRAIN && stats.bytes <= stats.packs * HK_UNIT);
}
#else
HK_INLINE void is_valid_locked(const pack_t *pack) { (void)pack; }
#endif

/* ---- grains ---- */

/* The first run of n unused grains; GRAINS where there is none, and the bound is then exact. */
static unsigned find_locked(pack_t *pack, unsigned n) {
    unsigned longest = 0;
    hk_assert(hk_lock_is_mine(&lock));
    for (unsigned at = 0, end; at < GRAINS; at = end + 1) {
        if (at % 64 == 0 && pack->used[at / 64] == UINT64_MAX) {
            end = at + 63;
            continue;
        }
        for (end = at; end < GRAINS && !get(pack->used, end);)
            end++;
        if (end - at >= n)
            return at;
        longest = (unsigned)hk_max(longest, end - at);
    }
    pack->longest = longest;
    return GRAINS;
}

/* The first grain of the live block at p, and its pack. */
static unsigned block_at(pack_t **pack, const void *p, hk_fatal_t if_not) {
    *pack = hk_map_owner(p);
    size_t offset = (size_t)((const char *)p - (*pack)->base);
    unsigned first = (unsigned)(offset / HK_GRAIN);
    if (offset % HK_GRAIN != 0 || length(*pack, first) == 0)
        hk_fatal(if_not, p);
    return first;
}

static void *take_locked(pack_t *pack, unsigned n) {
    unsigned first = pack->longest < n ? GRAINS : find_locked(pack, n);
    if (first == GRAINS)
        return NULL;
    set(pack->used, first, n, true);
    set_length(pack, first, n);
    stats.blocks++;
    stats.bytes += (size_t)n * HK_GRAIN;
    is_valid_locked(pack);
    return pack->base + (size_t)first * HK_GRAIN;
}

/* Returns the pack's memory where nothing of it is used any more. */
static char *give_locked(pack_t *pack, unsigned first, size_t *bytes) {
    unsigned n = length(pack, first);
    uint64_t any = 0;
    is_valid_locked(pack);
    set(pack->used, first, n, false);
    set_length(pack, first, 0);
    pack->longest = GRAINS;
    stats.blocks--;
    stats.bytes -= (size_t)n * HK_GRAIN;
    *bytes += (size_t)n * HK_GRAIN;
    is_valid_locked(pack);
    for (unsigned w = 0; w < WORDS; w++)
        any |= pack->used[w];
    if (any != 0)
        return NULL;
    char *base = pack->base;
    pack->base = NULL;
    stats.packs--;
    return base;
}

static void release(char *base) {
    if (base == NULL)
        return;
    hk_assert(hk_map_kind(base) == HK_KIND_PACKED);
    hk_map_set_owner(base, NULL);
    hk_region_give((hk_range_t){base, HK_UNIT, false});
}

/* ---- packs ---- */

static void *take_from_any_locked(unsigned n) {
    hk_assert(hk_lock_is_mine(&lock));
    for (pack_t *pack = all; pack != NULL; pack = pack->next) {
        void *p = pack->base == NULL ? NULL : take_locked(pack, n);
        if (p != NULL)
            return p;
    }
    return NULL;
}

/* A descriptor without memory, an old one or a new one. */
static pack_t *descriptor_locked(void) {
    hk_assert(hk_lock_is_mine(&lock));
    for (pack_t *pack = all; pack != NULL; pack = pack->next)
        if (pack->base == NULL)
            return pack;
    pack_t *pack = hk_meta_alloc(sizeof *pack);
    if (pack != NULL) {
        pack->next = all;
        all = pack;
    }
    return pack;
}

static void *take_from_new(unsigned n) {
    hk_range_t range;
    size_t used;
    if (!hk_region_take(HK_UNIT, HK_UNIT, 0, &range, &used))
        return NULL;
    hk_lock(&lock);
    pack_t *pack = descriptor_locked();
    void *p = NULL;
    if (pack != NULL) {
        void *before = hk_map_set_owner(range.start, pack);
        hk_assert(before == NULL); /* nobody else has the unit */
        hk_map_set(range.start, HK_UNIT / HK_SLICE, HK_KIND_PACKED);
        pack->base = range.start;
        pack->longest = GRAINS;
        stats.packs++;
        p = take_locked(pack, n);
    }
    hk_unlock(&lock);
    if (pack == NULL)
        hk_region_give(range);
    return p;
}

void *hk_pack_take(size_t n) {
    hk_assert(n != 0 && n <= HK_PACK_MOST);
    hk_lock(&lock);
    void *p = take_from_any_locked(grains_of(n));
    hk_unlock(&lock);
    return p;
}

void *hk_pack_alloc(size_t n) {
    void *p = hk_pack_take(n);
    return p != NULL ? p : take_from_new(grains_of(n));
}

size_t hk_pack_free(void *p) {
    pack_t *pack;
    size_t bytes = 0;
    hk_lock(&lock);
    unsigned first = block_at(&pack, p, HK_INVALID_FREE);
    if (hk_load_relaxed(&pack->late[first / 64]) >> first % 64 & 1)
        hk_fatal(HK_DOUBLE_FREE, p);
    char *empty = give_locked(pack, first, &bytes);
    hk_unlock(&lock);
    release(empty);
    return bytes;
}

void hk_pack_put_aside(void *p) {
    pack_t *pack;
    unsigned first = block_at(&pack, p, HK_INVALID_FREE);
    uint64_t bit = (uint64_t)1 << first % 64;
    if (hk_or_seq(&pack->late[first / 64], bit) & bit)
        hk_fatal(HK_DOUBLE_FREE, p);
}

size_t hk_pack_free_late(void) {
    size_t bytes = 0;
    hk_lock(&lock);
    for (pack_t *pack = all; pack != NULL; pack = pack->next)
        for (unsigned w = 0; w < WORDS; w++)
            for (uint64_t late = hk_exchange_seq(&pack->late[w], (uint64_t)0); late != 0;
                 late &= late - 1)
                release(give_locked(pack, w * 64 + (unsigned)__builtin_ctzll(late), &bytes));
    hk_unlock(&lock);
    return bytes;
}

size_t hk_pack_usable(const void *p) {
    pack_t *pack;
    unsigned first = block_at(&pack, p, HK_INVALID_POINTER);
    return (size_t)length(pack, first) * HK_GRAIN;
}

bool hk_pack_resize(void *p, size_t n) {
    hk_assert(n != 0 && n <= HK_PACK_MOST);
    pack_t *pack;
    const unsigned want = grains_of(n);
    hk_lock(&lock);
    unsigned first = block_at(&pack, p, HK_INVALID_POINTER);
    unsigned have = length(pack, first), end = first + have;
    while (end < first + want && end < GRAINS && !get(pack->used, end))
        end++;
    bool fits = first + want <= end;
    if (fits) {
        set(pack->used, first, have, false);
        set(pack->used, first, want, true);
        set_length(pack, first, want);
        pack->longest = GRAINS;
        stats.bytes += (size_t)want * HK_GRAIN;
        stats.bytes -= (size_t)have * HK_GRAIN;
        is_valid_locked(pack);
    }
    hk_unlock(&lock);
    return fits;
}

hk_pack_stats_t hk_pack_stats(void) {
    hk_lock(&lock);
    hk_pack_stats_t now = stats;
    hk_unlock(&lock);
    return now;
}
