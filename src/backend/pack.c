#include "backend/pack.h"

#include "backend/heap.h"
#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "base/counters.h"
#include "base/lock.h"
#include "base/report.h"

enum { GRAINS = HK_UNIT / HK_GRAIN, LISTS = (HK_PACK_MOST + HK_PACK_ALIGN) / HK_GRAIN };
#define LATE 0x8000u
_Static_assert(GRAINS < LATE, "no block is so long");

/* Equation: lengths[i] != 0 <=> a block of so many grains begins with grain i; inside it all are 0.
 * lengths[GRAINS] is 1, so that a search ends there. Lock: pack, for all that is not atomic.
 * Type-stable. */
typedef struct pack {
    char *base;       /* NULL: no memory */
    unsigned used;    /* grains in blocks */
    unsigned dirty;   /* grains that blocks left since the last claim, less those taken since */
    unsigned longest; /* the longest run of unused grains */
    bool young;       /* a block was freed since the last look for a claim */
    unsigned list;    /* the list it is on; 0: none */
    struct pack *next, **link; /* on that list; *link is this one */
    hk_stocked_t kept;
    /* atomic: written under the lock, except LATE: the block is free, but not yet for the pack */
    _Atomic uint16_t lengths[GRAINS + 1];
} pack_t;

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_PACK);
static hk_stock_t stock = HK_STOCK(pack_t, kept);
static hk_pack_stats_t stats; /* lock: pack */
/* Packs with room are in lists by their longest run, as superslabs are; the last list has all whose
 * longest run serves any block, however aligned. */
static pack_t *lists[LISTS + 1];           /* lock: pack */
static uint64_t not_empty[LISTS / 64 + 1]; /* lock: pack; bit n: lists[n] is not empty */

HK_INLINE unsigned grains_of(size_t n) { return (unsigned)((n + HK_GRAIN - 1) / HK_GRAIN); }

HK_INLINE unsigned length(const pack_t *pack, unsigned first) {
    return hk_load_relaxed(&pack->lengths[first]) % LATE;
}

/* ---- grains ---- */

/* How many grains from `at` on are unused. */
static unsigned room(const pack_t *pack, unsigned at) {
    unsigned end = at;
    while (length(pack, end) == 0)
        end++;
    return end - at;
}

/* Checks the equation, `longest`, and that the pack is on the list for it. */
HK_WALKER static void is_valid_locked(const pack_t *pack) {
    unsigned in_blocks = 0, longest = 0;
    hk_assert(hk_lock_is_mine(&lock));
    hk_assert(pack->base != NULL && hk_is_aligned((uintptr_t)pack->base, HK_UNIT));
    hk_assert(hk_map_owner(pack->base) == pack && length(pack, GRAINS) == 1);
    for (unsigned at = 0, n; at < GRAINS; at += n) {
        longest = (unsigned)hk_max(longest, room(pack, at));
        at += room(pack, at);
        n = length(pack, at);
        hk_assert(at == GRAINS || n == 1 || room(pack, at + 1) >= n - 1);
        in_blocks += at != GRAINS ? n : 0;
    }
    hk_assert(pack->used == in_blocks && pack->longest == longest);
    hk_assert(pack->list == hk_min(longest, LISTS));
    hk_assert(pack->list == 0 || (*pack->link == pack && pack->link != &pack->next));
    hk_assert(pack->list == 0 || not_empty[pack->list / 64] >> pack->list % 64 & 1);
    hk_assert(pack->dirty <= GRAINS - in_blocks);
    hk_assert(stats.packs != 0 && stats.bytes >= (size_t)in_blocks * HK_GRAIN);
    hk_assert(stats.bytes >= stats.blocks * HK_GRAIN && stats.bytes <= stats.packs * HK_UNIT);
}

/* The first grain of the live block at p. `pack` is NULL if its last block has just been freed. */
static unsigned block_at(const pack_t *pack, const void *p, hk_fatal_t if_not) {
    const size_t offset = pack != NULL ? (size_t)((const char *)p - pack->base) : SIZE_MAX;
    unsigned first = (unsigned)(offset / HK_GRAIN);
    if (offset >= HK_UNIT || offset % HK_GRAIN != 0 || length(pack, first) == 0)
        hk_fatal(if_not, p);
    return first;
}

/* Moves the pack to the list for `longest`, its longest run, after that has changed; 0 also if its
 * memory goes. */
static void relist_locked(pack_t *pack, unsigned longest) {
    const unsigned list = (unsigned)hk_min(longest, LISTS), from = pack->list;
    hk_assert(hk_lock_is_mine(&lock));
    pack->longest = longest;
    if (list == from)
        return;
    if (from != 0) {
        *pack->link = pack->next;
        if (pack->next != NULL)
            pack->next->link = pack->link;
        if (lists[from] == NULL)
            not_empty[from / 64] &= ~((uint64_t)1 << from % 64);
    }
    pack->list = list;
    if (list != 0) {
        pack->link = &lists[list];
        pack->next = lists[list];
        if (pack->next != NULL)
            pack->next->link = &pack->next;
        lists[list] = pack;
        not_empty[list / 64] |= (uint64_t)1 << list % 64;
    }
}

static unsigned longest_run(const pack_t *pack) {
    unsigned longest = 0;
    for (unsigned at = 0, unused; at < GRAINS; at += unused + length(pack, at + unused)) {
        unused = room(pack, at);
        longest = (unsigned)hk_max(longest, unused);
    }
    return longest;
}

/* The length of the run that unused grain `at` is in. */
static unsigned run_around(const pack_t *pack, unsigned at) {
    unsigned begin = at;
    while (begin != 0 && length(pack, begin - 1) == 0)
        begin--;
    /* `begin` is the second grain of a block: skip the rest of the block */
    if (begin != 0)
        begin += length(pack, begin - 1) - 1;
    return at + room(pack, at) - begin;
}

static void set_dirty_locked(pack_t *pack, unsigned dirty) {
    stats.dirty += ((size_t)dirty - pack->dirty) * HK_GRAIN;
    pack->dirty = dirty;
}

/* Sets the length of the block at grain `first` to n; 0: no block. A block that grows takes grains
 * from a run of `run` unused ones, and dirty grains are taken to be used first. */
static void set_length_locked(pack_t *pack, unsigned first, unsigned n, unsigned run) {
    const unsigned had = length(pack, first);
    hk_store_relaxed(&pack->lengths[first], (uint16_t)n);
    pack->used += n - had;
    stats.blocks += (size_t)(n != 0) - (had != 0);
    stats.bytes += ((size_t)n - had) * HK_GRAIN;
    set_dirty_locked(pack, n < had ? pack->dirty + had - n
                                   : pack->dirty - (unsigned)hk_min(pack->dirty, n - had));
    if (n < had)
        relist_locked(pack, (unsigned)hk_max(pack->longest, run_around(pack, first + n)));
    else if (run == pack->longest)
        relist_locked(pack, longest_run(pack));
    hk_walk(is_valid_locked(pack));
}

/* A block gets `more` grains: counts the memory that they have to bring in. */
static void count_touched_locked(const pack_t *pack, unsigned more) {
    hk_count(touched, hk_minus(more, pack->dirty) * HK_GRAIN);
}

/* Takes n grains, the first at a multiple of `align`, from the first run in which they fit; NULL:
 * they fit in none. */
static void *take_locked(pack_t *pack, unsigned n, unsigned align) {
    hk_assert(hk_lock_is_mine(&lock));
    for (unsigned at = 0, unused; at < GRAINS; at += unused + length(pack, at + unused)) {
        const unsigned first = (unsigned)hk_align_up(at, align), skipped = first - at;
        unused = room(pack, at);
        if (unused >= n + skipped) {
            count_touched_locked(pack, n);
            set_length_locked(pack, first, n, unused);
            return pack->base + (size_t)first * HK_GRAIN;
        }
    }
    return NULL;
}

/* The first list from `list` on that is not empty; 0: all are. */
static unsigned first_from_locked(unsigned list) {
    unsigned word = list / 64;
    uint64_t bits = not_empty[word] & ~(uint64_t)0 << list % 64;
    while (bits == 0 && ++word < sizeof not_empty / sizeof *not_empty)
        bits = not_empty[word];
    return bits != 0 ? word * 64 + (unsigned)__builtin_ctzll(bits) : 0;
}

/* A run of n + align - 1 grains or more fits n grains for certain. A shorter one may, say if a
 * block of the same alignment left it: a few packs with such runs are tried. */
static void *find_locked(unsigned n, unsigned align) {
    enum { LOOKS = 16 };
    const unsigned certain = n + align - 1;
    unsigned left = LOOKS;
    void *p = NULL;
    for (unsigned list = n; p == NULL; list++) {
        list = first_from_locked(left == 0 ? (unsigned)hk_max(list, certain) : list);
        if (list == 0)
            break;
        pack_t *pack = lists[list];
        for (; pack != NULL && p == NULL && (left != 0 || list >= certain); pack = pack->next) {
            left -= list < certain;
            p = take_locked(pack, n, align);
        }
    }
    return p;
}

/* ---- packs ---- */

/* Before it takes fresh memory it collects remote frees, so that superslabs become empty. */
void *hk_pack_alloc(size_t n, size_t align) {
    hk_assert(n != 0 && n <= HK_PACK_MOST && hk_is_pow2(align) && align <= HK_PACK_ALIGN);
    hk_lock(&lock);
    void *p = find_locked(grains_of(n), grains_of(align));
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
    hk_assert(before == NULL); /* no other descriptor has the unit */
    hk_map_set(range.start, HK_UNIT / HK_SLICE, HK_KIND_PACKED);
    hk_lock(&lock);
    pack->base = range.start;
    hk_store_relaxed(&pack->lengths[GRAINS], (uint16_t)1);
    stats.packs++;
    set_dirty_locked(pack, (unsigned)(used / HK_GRAIN));
    relist_locked(pack, GRAINS);
    p = take_locked(pack, grains_of(n), grains_of(align));
    hk_unlock(&lock);
    return p;
}

/* A run that was claimed and purged is not dirty. */
size_t hk_pack_give(void *p, bool purged) {
    pack_t *pack = hk_map_owner(p);
    hk_lock(&lock);
    const unsigned first = block_at(pack, p, HK_INVALID_FREE), n = length(pack, first);
    if (hk_load_relaxed(&pack->lengths[first]) & LATE)
        hk_fatal(HK_DOUBLE_FREE, p);
    set_length_locked(pack, first, 0, 0);
    if (purged)
        set_dirty_locked(pack, pack->dirty - n);
    else
        pack->young = true;
    hk_range_t range = {0};
    if (pack->used == 0) {
        range = (hk_range_t){pack->base, HK_UNIT, false};
        set_dirty_locked(pack, 0);
        relist_locked(pack, 0);
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

static atomic_bool some_are_late; /* atomic: any thread */

void hk_pack_put_aside(void *p) {
    pack_t *pack = hk_map_owner(p);
    unsigned first = block_at(pack, p, HK_INVALID_FREE);
    if (hk_or_seq(&pack->lengths[first], (uint16_t)LATE) & LATE)
        hk_fatal(HK_DOUBLE_FREE, p);
    hk_store_seq(&some_are_late, true);
}

size_t hk_pack_free_late(void) {
    size_t bytes = 0;
    if (!hk_exchange_seq(&some_are_late, false))
        return 0;
    for (pack_t *pack = hk_load_acquire(&stock.all); pack != NULL; pack = pack->kept.next)
        for (unsigned at = 0; at < GRAINS; at++)
            if ((hk_load_acquire(&pack->lengths[at]) & LATE) != 0 &&
                (hk_and_seq(&pack->lengths[at], (uint16_t)~LATE) & LATE) != 0)
                /* only the thread that cleared LATE */
                bytes += hk_pack_free(pack->base + (size_t)at * HK_GRAIN);
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
    const unsigned behind = room(pack, first + have);
    const bool fits = grains_of(n) <= have + behind;
    if (fits) {
        count_touched_locked(pack, (unsigned)hk_minus(grains_of(n), have));
        set_length_locked(pack, first, grains_of(n), behind);
    }
    hk_unlock(&lock);
    return fits;
}

/* ---- giving its pages back ---- */

/* Makes blocks of the runs of unused grains, as far as they are whole OS pages and not too
 * short. */
static unsigned claim_locked(pack_t *pack, hk_os_range_t *ranges) {
    const unsigned page = (unsigned)hk_os_page_size() / HK_GRAIN;
    unsigned count = 0;
    for (unsigned at = 0, unused; at < GRAINS; at += unused + length(pack, at + unused)) {
        unused = room(pack, at);
        const unsigned first = (unsigned)hk_align_up(at, page);
        const unsigned end = (at + unused) / page * page;
        if (end < first + HK_PACK_CLAIM_FROM / HK_GRAIN)
            continue;
        set_length_locked(pack, first, end - first, unused);
        ranges[count++] = (hk_os_range_t){pack->base + (size_t)first * HK_GRAIN,
                                          (size_t)(end - first) * HK_GRAIN};
        unused = first - at;
    }
    return count;
}

bool hk_pack_claim(void **at, bool aged, bool *seen, hk_pack_claim_t *claim) {
    enum { MOST_SEEN = 256 };
    *claim = (hk_pack_claim_t){0};
    hk_lock(&lock);
    pack_t *pack = *at != NULL ? ((pack_t *)*at)->kept.next : hk_load_acquire(&stock.all);
    for (unsigned i = 0; pack != NULL && i < MOST_SEEN && claim->count == 0; i++) {
        const bool is_due = pack->dirty >= HK_PACK_CLAIM_FROM / HK_GRAIN;
        *at = pack;
        *seen |= is_due && aged && pack->young;
        if (is_due && !(aged && pack->young)) {
            claim->dirty = (size_t)pack->dirty * HK_GRAIN;
            set_dirty_locked(pack, 0);
            claim->count = claim_locked(pack, claim->ranges);
        }
        pack->young = false;
        pack = pack->kept.next;
    }
    hk_unlock(&lock);
    return claim->count != 0 || pack != NULL;
}

hk_pack_stats_t hk_pack_stats(void) {
    hk_lock(&lock);
    hk_pack_stats_t now = stats;
    hk_unlock(&lock);
    return now;
}
