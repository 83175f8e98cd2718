#include "backend/superslab.h"

#include "backend/advise.h"
#include "backend/hugepages.h"
#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "backend/slab.h"
#include "base/lock.h"
#include "base/random.h"
#include "base/report.h"
#include "config/config.h"
#include "stats/counters.h"

/* Superslabs with free slices are kept in lists by the length of their longest free run, so that
 * the first list that is long enough serves a request without a search. */
enum { NO_LIST = 0 };
static const uint32_t ALL = UINT32_MAX;

/* Equation: free, claimed and the runs of the carved slabs partition the slices of whole; fresh,
 * lazy and seen are disjoint subsets of free, and purged is one too; holes and whole are disjoint.
 * Lock: pool, for everything but slabs[]. */
struct hk_superslab {
    hk_superslab_head_t at;
    uint8_t head[HK_SLICES]; /* the first slice of each one's run */
    char *base;
    uint32_t whole;     /* const while mapped. 1: the slice is there */
    uint32_t holes;     /* const while mapped. 1: nobody can read or write the slice */
    uint32_t free;      /* 1: the slice is free */
    uint32_t fresh;     /* 1: the slice reads as zero */
    uint32_t lazy;      /* 1: the system may take the slice's memory, or has */
    uint32_t seen;      /* 1: the slice was free and had memory at the last look */
    uint32_t claimed;   /* 1: the slice is being purged */
    uint32_t purged;    /* 1: the slice has been, and nobody had it since */
    bool no_huge_pages; /* they have been ruled out for the superslab, or never asked for */
    uint8_t list;       /* which list it is on, or NO_LIST */
    bool filled;        /* what is fresh has memory all the same: a huge page's */
    hk_superslab_t *next, *prev;
    hk_superslab_t *all_next; /* const once set: all that ever were, for statistics and reuse */
    _Atomic uint16_t *shadow; /* const once set; NULL where nobody guards the heap */
    hk_slab_t slabs[HK_SLICES];
    hk_remote_t remotes[HK_SLICES];
    /* the bitmaps of slabs whose own are too short */
    uint64_t wide_bits[HK_SLICES][HK_BITMAP_WORDS];
    _Atomic uint64_t wide_remote_bits[HK_SLICES][HK_BITMAP_WORDS];
};
_Static_assert(offsetof(hk_superslab_t, remotes) ==
                   offsetof(hk_superslab_t, slabs) + HK_SLICES * sizeof(hk_slab_t),
               "hk_remote_of()");

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_POOL);
static hk_superslab_t *lists[HK_SLICES + 1]; /* lock: pool; [n]: the longest free run is n slices */
static uint64_t not_empty;                   /* lock: pool; bit n: lists[n] is not empty */
static hk_superslab_t *all;                  /* lock: pool */
static hk_superslab_t *unmapped;  /* lock: pool; descriptors without memory, linked by next */
static size_t superslab_count;    /* lock: pool; with memory */
static size_t mapped;             /* lock: pool; bytes of them */
static atomic_bool shadows;       /* atomic: any thread; whether a superslab gets one */
static _Atomic uint64_t diggings; /* atomic: any thread; where holes are next; 0: nowhere */
_Atomic uint64_t hk_pool_retaken; /* atomic: any thread */
/* Slices of each class's slabs; written under the lock, read by any thread. */
static _Atomic size_t in_slabs[HK_CLASS_COUNT];

HK_INLINE uint32_t run_mask(unsigned first, unsigned n) {
    return (n == HK_SLICES ? ALL : (1u << n) - 1) << first;
}

/* Of its memory. */
HK_INLINE size_t bytes_of(const hk_superslab_t *ss) {
    return (size_t)hk_ones(ss->whole | ss->holes) * HK_SLICE;
}

/* Bit i of the result: slices i .. i+n-1 are all free. */
static uint32_t run_starts(uint32_t free, unsigned n) {
    for (unsigned have = 1; have < n;) {
        unsigned step = have < n - have ? have : n - have;
        free &= free >> step;
        have += step;
    }
    return free;
}

static unsigned longest_run(uint32_t free) {
    unsigned longest = 0;
    for (unsigned step = HK_SLICES; step != 0; step /= 2)
        if (longest + step <= HK_SLICES && run_starts(free, longest + step) != 0)
            longest += step;
    return longest;
}

/* ---- what must be true ---- */

#if HK_DEBUG
/* The slab or large run whose first slice is `first`: its descriptor, and the slices it takes. */
static uint32_t run_is_valid_locked(const hk_superslab_t *ss, unsigned first) {
    const hk_slab_t *slab = &ss->slabs[first];
    hk_assert(slab->first == first && slab->base == ss->base + first * HK_SLICE);
    hk_assert(slab->slices >= 1 && first + slab->slices <= HK_SLICES);
    hk_assert(slab->cls < HK_CLASS_COUNT);
    hk_assert(slab->cls == 0 || slab->slices == hk_classes[slab->cls].slices);
    for (unsigned i = first; i < first + slab->slices; i++)
        hk_assert(ss->head[i] == first);
    return run_mask(first, slab->slices);
}

/* It is on the list of its longest run, and its neighbours there know it. */
static void is_listed_locked(const hk_superslab_t *ss) {
    hk_assert(ss->list == longest_run(ss->free));
    if (ss->list == NO_LIST)
        return;
    hk_assert(not_empty >> ss->list & 1);
    hk_assert((ss->prev != NULL ? ss->prev->next : lists[ss->list]) == ss);
    hk_assert(ss->prev == NULL || ss->prev->list == ss->list);
    hk_assert(ss->next == NULL || (ss->next->prev == ss && ss->next->list == ss->list));
}

/* The totals, and every superslab's place. */
static void pool_is_valid_locked(void) {
    size_t bytes = 0, count = 0, listed = 0, without = 0;
    for (const hk_superslab_t *ss = all; ss != NULL; ss = ss->all_next) {
        is_listed_locked(ss);
        bytes += ss->base != NULL ? bytes_of(ss) : 0;
        count += ss->base != NULL;
        without += ss->base == NULL;
        listed += ss->list != NO_LIST;
    }
    hk_assert(count == superslab_count && bytes == mapped);
    for (unsigned n = 0; n <= HK_SLICES; n++) {
        hk_assert((lists[n] != NULL) == (not_empty >> n & 1));
        for (const hk_superslab_t *ss = lists[n]; ss != NULL; ss = ss->next, listed--)
            hk_assert(ss->list == n && listed != 0);
    }
    hk_assert(listed == 0);
    for (const hk_superslab_t *ss = unmapped; ss != NULL; ss = ss->next, without--)
        hk_assert(ss->base == NULL && without != 0); /* others are about to get memory */
}

/* Of a superslab that has just changed; all of the pool only now and then. */
static void is_valid_locked(const hk_superslab_t *ss) {
    enum { NOW_AND_THEN = 32 };
    static unsigned calls; /* lock: pool */
    hk_assert(hk_lock_is_mine(&lock));
    const uint32_t not_carved = ss->free | ss->claimed;
    hk_assert((ss->free & ss->claimed) == 0);
    hk_assert(ss->base != NULL || not_carved == 0);
    hk_assert((not_carved & ~ss->whole) == 0 && (ss->whole & ss->holes) == 0);
    hk_assert(((ss->fresh | ss->lazy | ss->seen | ss->purged) & ~ss->free) == 0);
    hk_assert((ss->fresh & ss->lazy) == 0 && (ss->seen & (ss->fresh | ss->lazy)) == 0);
    uint32_t carved = ss->base != NULL ? ss->whole & ~not_carved : 0;
    while (carved != 0) {
        uint32_t run = run_is_valid_locked(ss, (unsigned)__builtin_ctz(carved));
        hk_assert((run & ~carved) == 0); /* no two share a slice, and none is free */
        carved &= ~run;
    }
    is_listed_locked(ss);
    if (++calls % NOW_AND_THEN == 0)
        pool_is_valid_locked();
}
#else
HK_INLINE void is_valid_locked(const hk_superslab_t *ss) { (void)ss; }
#endif

/* So many more, or fewer; returns how many there are now. */
static size_t count_slices_locked(unsigned cls, size_t more) {
    const size_t now = hk_load_relaxed(&in_slabs[cls]) + more;
    hk_store_relaxed(&in_slabs[cls], now);
    return now;
}

/* ---- lists ---- */

static void unlink_locked(hk_superslab_t *ss) {
    hk_assert(hk_lock_is_mine(&lock));
    if (ss->list == NO_LIST)
        return;
    if (ss->prev != NULL)
        ss->prev->next = ss->next;
    else
        lists[ss->list] = ss->next;
    if (ss->next != NULL)
        ss->next->prev = ss->prev;
    if (lists[ss->list] == NULL)
        not_empty &= ~((uint64_t)1 << ss->list);
    ss->list = NO_LIST;
}

static void link_locked(hk_superslab_t *ss, unsigned list) {
    hk_assert(hk_lock_is_mine(&lock) && ss->list == NO_LIST && list <= HK_SLICES);
    ss->list = (uint8_t)list;
    if (list == NO_LIST)
        return;
    ss->prev = NULL;
    ss->next = lists[list];
    if (ss->next != NULL)
        ss->next->prev = ss;
    lists[list] = ss;
    not_empty |= (uint64_t)1 << list;
}

static void relist_locked(hk_superslab_t *ss) {
    unsigned list = longest_run(ss->free);
    if (list == ss->list)
        return;
    unlink_locked(ss);
    link_locked(ss, list);
}

/* The slices are free no more. */
static void use_locked(hk_superslab_t *ss, uint32_t mask) {
    hk_assert((ss->free & mask) == mask);
    ss->free &= ~mask;
    ss->fresh &= ~mask;
    ss->lazy &= ~mask;
    ss->seen &= ~mask;
    if ((ss->purged & mask) != 0)
        hk_add_relaxed(&hk_pool_retaken, (uint64_t)hk_ones(ss->purged & mask) * HK_SLICE);
    ss->purged &= ~mask;
    relist_locked(ss);
    is_valid_locked(ss);
}

/* What run_starts() says of slices that were used before: their pages are there. */
static uint32_t used_starts(const hk_superslab_t *ss, unsigned n) {
    return run_starts(ss->free & ~(ss->fresh | ss->lazy), n);
}

static hk_slab_t *take_from_locked(hk_superslab_t *ss, unsigned slices, unsigned cls) {
    uint32_t starts = used_starts(ss, slices);
    if (starts == 0)
        starts = run_starts(ss->free, slices);
    hk_assert(starts != 0);
    unsigned first = (unsigned)__builtin_ctz(starts);
    uint32_t mask = run_mask(first, slices);
    hk_slab_t *slab = &ss->slabs[first];
    hk_assert(hk_load_relaxed(&slab->owner) ==
              NULL); /* whoever had the slices has let go of them */
    slab->zeroed = (ss->fresh & mask) == mask;
    for (unsigned i = first; i < first + slices; i++)
        ss->head[i] = (uint8_t)first;
    slab->base = ss->base + first * HK_SLICE;
    slab->first = (uint8_t)first;
    slab->slices = (uint8_t)slices;
    slab->cls = (uint8_t)cls;
    slab->bits =
        hk_class_words(&hk_classes[cls]) <= HK_FEW_WORDS ? slab->few_bits : ss->wide_bits[first];
    hk_store_relaxed(&slab->free, hk_classes[cls].blocks);
    if (cls != 0)
        hk_slab_mark_slices(slab, ss->fresh >> first, ss->lazy >> first);
    else
        hk_count(touched, (uint64_t)hk_ones(ss->fresh & mask) * HK_SLICE);
    use_locked(ss, mask);
    count_slices_locked(cls, slices);
    return slab;
}

/* From the superslab whose longest run is the shortest that is long enough; for a slab rather from one that
 * has memory for it, of those that are first on their lists. Large runs would cut up more for that than it saves. */
static HK_NOINLINE hk_slab_t *take_locked(unsigned slices, unsigned cls) {
    const uint64_t candidates = not_empty >> slices << slices;
    if (candidates == 0)
        return NULL;
    hk_superslab_t *best = lists[__builtin_ctzll(candidates)];
    for (uint64_t left = cls != 0 ? candidates : 0; left != 0; left &= left - 1) {
        hk_superslab_t *ss = lists[__builtin_ctzll(left)];
        if (used_starts(ss, slices) != 0) {
            best = ss;
            break;
        }
    }
    return take_from_locked(best, slices, cls);
}

static hk_superslab_t *superslab_of(const hk_slab_t *slab) {
    return (hk_superslab_t *)(uintptr_t)((const char *)(slab - slab->first) -
                                         offsetof(hk_superslab_t, slabs));
}

/* First the shadows of slabs with up to 256 blocks, then up to 1024, then all: those of a kind close together. */
enum { SHADOW_FEW = 256, SHADOW_MORE = 4, SHADOWS = HK_SLICES * (256 + 1024 + HK_SLAB_MAX_BLOCKS) };

static bool add_shadow(hk_superslab_t *ss) {
    if (ss->shadow == NULL)
        ss->shadow = hk_meta_alloc(SHADOWS * sizeof *ss->shadow);
    return ss->shadow != NULL;
}

static void find_shadow(const hk_slab_t *slab) {
    hk_superslab_t *ss = superslab_of(slab);
    size_t start = 0, room = SHADOW_FEW;
    for (; room < hk_classes[slab->cls].blocks; room *= SHADOW_MORE)
        start += room * HK_SLICES;
    start += slab->first * room;
    for (unsigned i = slab->first; i < slab->first + slab->slices; i++)
        ss->at.slices[i].shadow = ss->shadow + start, ss->at.slices[i].base = slab->base;
}

#if HK_DEBUG
/* None of the slab's blocks is given out: nobody can have freed one. (Where somebody has, and the
 * program did not free it twice, a collection has lost it.) */
static void no_remote_frees(const hk_slab_t *slab) {
    const hk_class_t *c = &hk_classes[slab->cls];
    for (unsigned w = 0; w < hk_class_words(c); w++)
        hk_assert(hk_load_relaxed(&hk_remote_bits(slab, c)[w]) == 0);
}
#else
HK_INLINE void no_remote_frees(const hk_slab_t *slab) { (void)slab; }
#endif

/* Makes the slices just taken into an ownerless slab. `pending` and `remote` are left alone: a
 * remote freer of the slab that was here before may still be between its two steps. */
static hk_slab_t *carve(hk_slab_t *slab) {
    slab->listed = false;
    hk_assert(hk_map_owner(slab->base) != NULL && hk_map_kind(slab->base) == HK_KIND_FREE);
    if (slab->cls == 0) {
        hk_map_set(slab->base, 1, HK_KIND_LARGE);
        hk_map_set(slab->base + HK_SLICE, slab->slices - 1u, HK_KIND_INTERIOR);
        return slab;
    }
    if (HK_UNLIKELY(hk_load_relaxed(&shadows))) {
        find_shadow(slab);
        if (!slab->zeroed)
            hk_zero(slab->base, slab->slices * HK_SLICE);
    }
    unsigned blocks = hk_classes[slab->cls].blocks;
    unsigned words = blocks / 64;
    for (unsigned w = 0; w < words; w++)
        slab->bits[w] = UINT64_MAX;
    if (blocks % 64 != 0)
        slab->bits[words++] = ((uint64_t)1 << (blocks % 64)) - 1;
    slab->summary = words == 64 ? UINT64_MAX : ((uint64_t)1 << words) - 1;
    hk_slab_is_valid(slab);
    no_remote_frees(slab);
    hk_map_set(slab->base, slab->slices, slab->cls);
    return slab;
}

hk_slab_t *hk_pool_take_mapped(unsigned slices, unsigned cls) {
    hk_assert(slices >= 1 && slices <= HK_SLICES && cls < HK_CLASS_COUNT);
    hk_assert(cls == 0 || slices == hk_classes[cls].slices);
    hk_lock(&lock);
    hk_slab_t *slab = take_locked(slices, cls);
    hk_unlock(&lock);
    return slab == NULL ? NULL : carve(slab);
}

/* Bytes: see hk_pool_stats_t. */
typedef struct {
    size_t carved, active, free_dirty, free_lazy;
} usage_t;

static void visit_locked(const hk_superslab_t *ss, hk_slab_visitor_t *visit, void *argument) {
    hk_assert(hk_lock_is_mine(&lock));
    for (unsigned i = 0; ss->base != NULL && i < HK_SLICES;) {
        if ((~ss->whole | ss->free | ss->claimed) >> i & 1) {
            i++;
            continue;
        }
        const hk_slab_t *slab = &ss->slabs[ss->head[i]];
        visit(slab, argument);
        i += slab->slices;
    }
}

static void add_slab(const hk_slab_t *slab, void *argument) {
    usage_t *usage = argument;
    const hk_class_t *c = &hk_classes[slab->cls];
    size_t bytes = slab->slices * HK_SLICE;
    usage->carved += bytes;
    usage->active +=
        slab->cls == 0 ? bytes : (size_t)(c->blocks - hk_load_relaxed(&slab->free)) * c->size;
}

static size_t dirty_locked(const hk_superslab_t *ss) {
    return (size_t)hk_ones(ss->free & ~(ss->fresh | ss->lazy)) * HK_SLICE;
}

static void add_usage_locked(const hk_superslab_t *ss, usage_t *usage) {
    usage->free_dirty += dirty_locked(ss);
    usage->free_lazy += (size_t)hk_ones(ss->lazy) * HK_SLICE;
    visit_locked(ss, add_slab, usage);
}

/* ---- shadows ---- */

static void shadow_early(const hk_slab_t *slab, void *early) {
    if (slab->cls == 0)
        return;
    find_shadow(slab);
    _Atomic uint16_t *shadow = superslab_of(slab)->at.slices[slab->first].shadow;
    for (unsigned i = 0; i < hk_classes[slab->cls].blocks; i++)
        hk_store_relaxed(&shadow[i], *(const uint16_t *)early);
}

bool hk_pool_add_shadows(uint16_t early) {
    hk_store_relaxed(&shadows, true);
    hk_lock(&lock);
    bool added = true;
    for (hk_superslab_t *ss = all; ss != NULL && added; ss = ss->all_next)
        added = add_shadow(ss);
    hk_unlock(&lock);
    if (added)
        hk_pool_visit(shadow_early, &early);
    return added;
}

/* A descriptor without memory: an old one, or a new one (zeroed). */
static hk_superslab_t *descriptor(void) {
    hk_lock(&lock);
    hk_superslab_t *ss = unmapped;
    if (ss != NULL)
        unmapped = ss->next;
    hk_unlock(&lock);
    hk_assert(ss == NULL || (ss->base == NULL && ss->list == NO_LIST && ss->claimed == 0));
    if (ss != NULL)
        return ss;
    ss = hk_meta_alloc(sizeof *ss);
    if (ss == NULL)
        return NULL;
    hk_lock(&lock);
    ss->all_next = all;
    all = ss;
    hk_unlock(&lock);
    return ss;
}

/* What of a slab may never have been touched: pages that nobody was given, and all of blocks of several
 * pages, of which buffers use but the first. */
static size_t untouched_bytes(const hk_slab_t *slab) {
    if (slab->cls != 0 && hk_classes[slab->cls].size <= 2 * hk_os_page_size())
        return hk_slab_clean_bytes(slab);
    return slab->slices * HK_SLICE;
}

/* Of the newest superslabs. */
typedef struct {
    size_t bytes, untouched;
    usage_t usage;
} sample_t;

static void add_to_sample(const hk_slab_t *slab, void *argument) {
    sample_t *sample = argument;
    sample->untouched += untouched_bytes(slab);
    add_slab(slab, &sample->usage);
}

static sample_t sample_locked(void) {
    enum { SAMPLE = 8, LOOKS = 64 };
    sample_t sample = {0};
    unsigned looks = 0;
    for (hk_superslab_t *ss = all; ss != NULL && looks < LOOKS; ss = ss->all_next, looks++) {
        if (ss->base == NULL) /* yet, or no more */
            continue;
        if (sample.bytes == SAMPLE * HK_UNIT)
            break;
        sample.bytes += HK_UNIT;
        sample.untouched += (size_t)hk_ones(ss->fresh) * HK_SLICE;
        visit_locked(ss, add_to_sample, &sample);
    }
    return sample;
}

/* Whether a huge page for a new superslab is likely to be touched all over, so that it saves faults and
 * TLB misses and wastes little. For slabs: little of the newest ones, of which some are just being filled,
 * is untouched, and what these and it may waste is a small part of what there is. For large blocks, which who asks for them fills: there are a few superslabs already, and
 * what is carved of the newest is in use. */
static bool is_dense(unsigned cls) {
    enum { SHARE = 32, SHARE_OF_NEWEST = 4, LEAST = 4 };
    hk_lock(&lock);
    const sample_t sample = sample_locked();
    bool dense =
        cls != 0 ? sample.untouched < sample.bytes / SHARE_OF_NEWEST &&
                       sample.untouched + HK_UNIT <= mapped / SHARE
                 : superslab_count >= LEAST && sample.usage.active >= sample.usage.carved / 8 * 7;
    hk_unlock(&lock);
    return dense;
}

/* The first page will be used at once. Not timed in a process that has only begun: its clock may be
 * somebody else's function, which is not ready. */
static void touch(const hk_range_t *range, bool dense) {
    enum { BEGUN = 4 };
    hk_lock(&lock);
    bool begun = superslab_count >= BEGUN;
    hk_unlock(&lock);
    if (!begun)
        return;
    const uint64_t start = hk_os_now_ns();
    *(volatile char *)range->start = 0;
    hk_huge_pages_note(hk_os_now_ns() - start, dense);
}

/* A unit or, where memory is bounded and that much is not left, as much of one as can be had. *filled: a huge
 * page has brought in all of it. */
static bool take_memory(size_t least, unsigned cls, hk_range_t *range, size_t *used, bool *filled) {
    const bool dense = hk_option(thp) != 0 && is_dense(cls) && hk_huge_pages_pay();
    if (hk_region_take(HK_UNIT, HK_UNIT, dense ? HK_UNIT : 0, range, used)) {
        if (*used == 0)
            touch(range, dense);
        *filled = dense && *used == 0;
        return true;
    }
    *filled = false;
    *used = 0;
    for (size_t bytes = HK_UNIT / 2; hk_region_is_bounded() && bytes >= least; bytes /= 2)
        if (hk_region_take_exact(bytes, HK_UNIT, range))
            return true;
    return false;
}

/* ---- holes ---- */

enum { HOLE_EVERY = 8 };

void hk_pool_dig_holes(uint64_t seed) { hk_store_relaxed(&diggings, seed | 1); }

/* Between the holes there is room for any slab. Where the system refuses there is none. */
static uint32_t dig_holes(const hk_range_t *range, unsigned cls, bool used) {
    uint32_t holes = 0;
    if (HK_LIKELY(hk_load_relaxed(&diggings) == 0) || cls == 0 || range->bytes != HK_UNIT ||
        !hk_region_scatters())
        return 0;
    for (unsigned i = 0; i < HK_SLICES; i += HOLE_EVERY) {
        const unsigned at = i + hk_random_shared(&diggings, HOLE_EVERY);
        char *hole = range->start + at * HK_SLICE;
        if (used)
            hk_advise(&(hk_os_range_t){hole, HK_SLICE}, 1, HK_PURGE);
        if (hk_os_protect(hole, HK_SLICE, HK_NO_ACCESS))
            holes |= run_mask(at, 1);
    }
    return holes;
}

/* False: refused, and the superslab cannot be used for anything else. */
static bool fill_holes_locked(const hk_superslab_t *ss) {
    return ss->holes == 0 || hk_os_protect(ss->base, bytes_of(ss), HK_READ_WRITE);
}

static bool add_superslab(unsigned slices, unsigned cls) {
    hk_superslab_t *ss = descriptor();
    if (ss == NULL)
        return false;
    hk_range_t range;
    size_t used;
    bool filled;
    if ((HK_UNLIKELY(hk_load_relaxed(&shadows)) && !add_shadow(ss)) ||
        !take_memory(slices * HK_SLICE, cls, &range, &used, &filled)) {
        hk_lock(&lock);
        ss->next = unmapped;
        unmapped = ss;
        hk_unlock(&lock);
        return false;
    }
    void *before = hk_map_set_owner(range.start, ss);
    hk_assert(before == NULL); /* nobody else has the unit */
    const unsigned count = (unsigned)(range.bytes / HK_SLICE);
    const uint32_t holes = dig_holes(&range, cls, used != 0);
    hk_map_set(range.start, count, HK_KIND_FREE);
    hk_lock(&lock);
    ss->base = range.start;
    ss->holes = holes;
    ss->whole = ss->free = run_mask(0, count) & ~holes;
    ss->fresh = used == 0 ? ss->whole : 0;
    ss->no_huge_pages = !filled && used == 0;
    ss->filled = filled;
    link_locked(ss, longest_run(ss->free));
    superslab_count++;
    mapped += range.bytes;
    is_valid_locked(ss);
    hk_unlock(&lock);
    return true;
}

hk_slab_t *hk_pool_take(unsigned slices, unsigned cls) {
    for (;;) {
        hk_slab_t *slab = hk_pool_take_mapped(slices, cls);
        if (slab != NULL || !add_superslab(slices, cls))
            return slab;
        /* another thread may have emptied the new superslab already: then once more */
    }
}

_Atomic uint64_t *hk_remote_wide_bits(const hk_slab_t *slab) {
    return superslab_of(slab)->wide_remote_bits[slab->first];
}

hk_slab_t *hk_slab_of(const void *p) {
    hk_superslab_t *ss = hk_map_owner(p);
    if (ss == NULL)
        return NULL;
    return &ss->slabs[ss->head[((uintptr_t)p >> HK_SLICE_SHIFT) & (HK_SLICES - 1)]];
}

/* Parts a wholly free superslab from its descriptor; the memory is the caller's to release(). */
static hk_range_t detach_locked(hk_superslab_t *ss) {
    hk_assert(ss->free == ss->whole);
    hk_range_t range = {ss->base, bytes_of(ss), ss->holes != 0};
    unlink_locked(ss);
    ss->base = NULL;
    ss->whole = ss->holes = 0;
    ss->free = ss->fresh = ss->lazy = ss->seen = ss->purged = 0;
    ss->next = unmapped;
    unmapped = ss;
    superslab_count--;
    mapped -= range.bytes;
    is_valid_locked(ss);
    return range;
}

static void release(hk_range_t range) {
    if (range.bytes == 0)
        return;
    hk_assert(hk_map_kind(range.start) == HK_KIND_FREE);
    hk_map_set_owner(range.start, NULL);
    hk_region_give(range);
}

/* Puts slices back. If the superslab is now wholly free and another one is too, its memory is
 * returned for release: one is kept so that a slab that comes and goes does not take the superslab
 * with it. */
static hk_range_t put_back_locked(hk_superslab_t *ss, uint32_t mask) {
    if (HK_UNLIKELY((ss->free & mask) != 0)) /* two threads freed the same large block at once */
        hk_fatal(HK_DOUBLE_FREE, ss->base + (unsigned)__builtin_ctz(mask) * HK_SLICE);
    ss->free |= mask;
    if (ss->free == ss->whole && (ss->whole != ALL || lists[HK_SLICES] != NULL) &&
        fill_holes_locked(ss))
        return detach_locked(ss);
    relist_locked(ss);
    is_valid_locked(ss);
    return (hk_range_t){0};
}

void hk_pool_give(hk_slab_t *slab) {
    hk_superslab_t *ss = superslab_of(slab);
    hk_assert(hk_load_relaxed(&slab->owner) == NULL && hk_map_owner(slab->base) == ss);
    hk_assert(slab->cls == 0 || hk_load_relaxed(&slab->free) == hk_classes[slab->cls].blocks);
    hk_assert(!slab->listed);
    no_remote_frees(slab);
    const unsigned cls = slab->cls;
    hk_map_set(slab->base, slab->slices, HK_KIND_FREE);
    hk_lock(&lock);
    bool last = count_slices_locked(cls, -(size_t)slab->slices) == 0;
    hk_range_t empty = put_back_locked(ss, run_mask(slab->first, slab->slices));
    hk_unlock(&lock);
    release(empty);
    if (last && cls >= HK_CLASS_FIXED)
        hk_class_forget(cls);
}

size_t hk_pool_carved(unsigned cls) { return hk_load_relaxed(&in_slabs[cls]) * HK_SLICE; }

bool hk_pool_resize(hk_slab_t *slab, unsigned slices) {
    hk_superslab_t *ss = superslab_of(slab);
    unsigned old = slab->slices, first = slab->first;
    hk_assert(slab->cls == 0 && slices >= 1 && slices <= HK_SLICES);
    if (slices < old) {
        hk_map_set(slab->base + slices * HK_SLICE, old - slices, HK_KIND_FREE);
        hk_lock(&lock);
        slab->slices = (uint8_t)slices;
        count_slices_locked(0, slices - (size_t)old);
        put_back_locked(ss, run_mask(first + slices, old - slices));
        hk_unlock(&lock);
        return true;
    }
    if (slices == old)
        return true;
    if (first + slices > HK_SLICES)
        return false;
    uint32_t more = run_mask(first + old, slices - old);
    hk_lock(&lock);
    bool ok = (ss->free & more) == more;
    if (ok) {
        for (unsigned i = first + old; i < first + slices; i++)
            ss->head[i] = (uint8_t)first;
        slab->slices = (uint8_t)slices;
        count_slices_locked(0, slices - old);
        hk_count(touched, (uint64_t)hk_ones(ss->fresh & more) * HK_SLICE);
        use_locked(ss, more);
    }
    hk_unlock(&lock);
    if (ok)
        hk_map_set(slab->base + old * HK_SLICE, slices - old, HK_KIND_INTERIOR);
    return ok;
}

/* ---- purging ---- */

static void collect_slab(const hk_slab_t *slab, void *argument) {
    hk_pool_cursor_t *cursor = argument;
    hk_assert(cursor->count < HK_SLICES);
    if (slab->cls != 0)
        cursor->slabs[cursor->count++] = (hk_slab_t *)(uintptr_t)slab;
}

bool hk_pool_next(hk_pool_cursor_t *cursor) {
    hk_lock(&lock);
    hk_superslab_t *ss = cursor->superslab == NULL ? all : cursor->superslab->all_next;
    while (ss != NULL && ss->base == NULL)
        ss = ss->all_next;
    cursor->superslab = ss;
    cursor->count = 0;
    if (ss != NULL) {
        cursor->base = ss->base;
        cursor->lazy = ss->lazy;
        cursor->huge_pages = !ss->no_huge_pages;
        visit_locked(ss, collect_slab, cursor);
    }
    hk_unlock(&lock);
    return ss != NULL;
}

uint32_t hk_pool_claim(hk_superslab_t *ss, bool aged, hk_os_range_t *ranges, unsigned *count) {
    hk_lock(&lock);
    if (ss->filled)
        ss->fresh = 0;
    ss->filled = false;
    uint32_t dirty = ss->free & ~(ss->fresh | ss->lazy);
    uint32_t claimed = aged ? dirty & ss->seen : dirty;
    ss->seen = dirty & ~claimed;
    ss->free &= ~claimed;
    ss->claimed |= claimed;
    relist_locked(ss);
    if (claimed != 0)
        is_valid_locked(ss);
    hk_unlock(&lock);
    *count = 0;
    for (uint32_t left = claimed; left != 0;) {
        unsigned first = (unsigned)__builtin_ctz(left);
        unsigned n = (unsigned)__builtin_ctzll(~((uint64_t)left >> first));
        ranges[(*count)++] = (hk_os_range_t){ss->base + first * HK_SLICE, n * HK_SLICE};
        left &= ~run_mask(first, n);
    }
    return claimed;
}

bool hk_pool_unclaim(hk_superslab_t *ss, uint32_t claimed, uint32_t purged, bool lazily) {
    hk_assert((purged & ~claimed) == 0);
    hk_lock(&lock);
    hk_assert((ss->claimed & claimed) == claimed); /* which keeps its memory where it is */
    *(lazily ? &ss->lazy : &ss->fresh) |= purged;
    ss->purged |= purged;
    ss->free |= claimed;
    ss->claimed &= ~claimed;
    relist_locked(ss);
    if (claimed != 0)
        is_valid_locked(ss);
    bool seen = ss->seen != 0;
    hk_unlock(&lock);
    return seen;
}

bool hk_pool_rule_out_huge_pages(hk_superslab_t *ss, hk_os_range_t *range) {
    hk_lock(&lock);
    bool first = !ss->no_huge_pages && ss->base != NULL;
    ss->no_huge_pages = true;
    *range = (hk_os_range_t){ss->base, bytes_of(ss)};
    hk_unlock(&lock);
    return first;
}

void hk_pool_release_empty(void) {
    hk_lock(&lock);
    while (lists[HK_SLICES] != NULL) {
        hk_range_t range = detach_locked(lists[HK_SLICES]);
        hk_unlock(&lock);
        release(range);
        hk_lock(&lock);
    }
    hk_unlock(&lock);
}

static void add_free(const hk_slab_t *slab, void *argument) {
    hk_pool_free_t *sum = argument;
    if (slab->cls == 0)
        return;
    const size_t dirty = hk_slab_dirty_bytes(slab);
    sum->dirty += dirty;
    sum->likely += hk_slab_likely_bytes(slab, dirty);
    sum->clean += hk_slab_clean_bytes(slab);
}

bool hk_pool_add_free(hk_superslab_t **at, hk_pool_free_t *sum) {
    hk_lock(&lock);
    hk_superslab_t *ss = *at == NULL ? all : (*at)->all_next;
    if (ss != NULL) {
        sum->dirty += dirty_locked(ss);
        sum->likely += dirty_locked(ss);
        sum->slices += dirty_locked(ss);
        sum->clean += (size_t)hk_ones(ss->fresh | ss->lazy) * HK_SLICE;
        visit_locked(ss, add_free, sum);
    }
    hk_unlock(&lock);
    *at = ss;
    return ss != NULL;
}

hk_pool_stats_t hk_pool_stats(void) {
    usage_t usage = {0};
    hk_lock(&lock);
    for (hk_superslab_t *ss = all; ss != NULL; ss = ss->all_next)
        add_usage_locked(ss, &usage);
    hk_pool_stats_t stats = {
        .superslabs = superslab_count,
        .mapped = mapped,
        .carved = usage.carved,
        .active = usage.active,
        .free_dirty = usage.free_dirty,
        .free_lazy = usage.free_lazy,
    };
    hk_unlock(&lock);
    return stats;
}

void hk_pool_visit(hk_slab_visitor_t *visit, void *argument) {
    hk_lock(&lock);
    hk_superslab_t *ss = all;
    hk_unlock(&lock);
    for (; ss != NULL; ss = ss->all_next) {
        hk_lock(&lock);
        visit_locked(ss, visit, argument);
        hk_unlock(&lock);
    }
}
