#include "backend/large.h"

#include "backend/hugepages.h"
#include "backend/meta.h"
#include "backend/pack.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "backend/written.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"

#define LARGE_MAX HK_UNIT

/* A huge block's descriptor, which the page map's owner table points to. Type-stable. */
typedef struct {
    hk_range_t range; /* range.start is the block */
    size_t wanted;    /* bytes that the last request takes; the rest is for the block's growth */
    size_t clean; /* behind so many bytes it had no memory when it was taken; SIZE_MAX: unknown */
    hk_stocked_t kept;
} huge_t;

static hk_stock_t stock = HK_STOCK(huge_t, kept);
static _Atomic size_t live; /* atomic: any thread; huge blocks */

/* The page map has the block: its owner, its first slice, and some of those that follow. */
HK_WALKER static void is_valid(const huge_t *huge) {
    enum { LOOKS = 32 };
    const hk_range_t *r = &huge->range;
    const size_t slices = hk_slices_of(r->bytes), step = 1 + slices / LOOKS;
    hk_assert(hk_is_aligned((uintptr_t)r->start, HK_UNIT) && r->bytes != 0);
    hk_assert(hk_is_aligned(r->bytes, HK_SLICE));
    hk_assert(hk_map_owner(r->start) == huge && hk_map_kind(r->start) == HK_KIND_HUGE);
    for (size_t i = 1; i < slices; i += step)
        hk_assert(hk_map_kind(r->start + i * HK_SLICE) == HK_KIND_INTERIOR);
    hk_assert(slices == 1 || hk_map_kind(r->start + r->bytes - 1) == HK_KIND_INTERIOR);
    hk_assert(r->bytes <= HK_UNIT || hk_map_owner(r->start + r->bytes - 1) == NULL);
}

static unsigned slices_for(size_t n) { return (unsigned)hk_slices_of(n); }

/* Sets the kinds of the slices behind the first known_bytes. */
static void publish_tail(huge_t *huge, size_t known_bytes) {
    const size_t known = hk_slices_of(known_bytes), slices = hk_slices_of(huge->range.bytes);
    hk_assert(known != 0);
    if (slices > known)
        hk_map_set(huge->range.start + known * HK_SLICE, slices - known, HK_KIND_INTERIOR);
    hk_walk(is_valid(huge));
}

static void publish(huge_t *huge) {
    hk_map_set_owner(huge->range.start, huge);
    hk_map_set(huge->range.start, 1, HK_KIND_HUGE);
    publish_tail(huge, HK_SLICE);
}

/* The bytes that a huge block of n bytes takes: whole units or, while memory is bounded, whole
 * slices. Not less: the page map would show anything else in the last slice as a part of the
 * block. */
static size_t huge_bytes(size_t n) {
    return hk_align_up(n, hk_region_is_bounded() ? HK_SLICE : HK_UNIT);
}

/* Tells hugepages.c about a block, without its last unit, which it may not reach. A block of whole
 * slices does not ask for huge pages, so it teaches nothing. True: hardly anything of it was
 * written to. */
static bool learn(const hk_range_t *range, bool ends) {
    return range->bytes >= HK_HUGE_PAGES_FROM && range->bytes % HK_UNIT == 0 &&
           hk_option(thp) != 0 && hk_huge_pages_learn(range->start, range->bytes - HK_UNIT, ends);
}

/* This thread's latest huge block of fresh memory. Not another thread's: a look at a page may have
 * to wait for it, which a thread that fills missing pages (userfaultfd) must not do. */
static _Thread_local hk_range_t latest; /* its start inverted: for a leak search it is no pointer */

static char *inverted(const char *start) { return (char *)~(uintptr_t)start; }

/* Called when the block is freed or moves. (A free by another thread shows in the page map.) */
static void forget(const char *start) {
    if (latest.start == inverted(start))
        latest.start = NULL;
}

/* For how many of the first bytes of a block of n bytes, which takes `bytes`, huge pages are asked:
 * for the units that it fills or nearly fills, if such blocks are written to all over. That makes
 * two mappings of the block, and mappings are limited: so a process with many such blocks asks for
 * all of each or, if that would be much more than n, does so only once it has very many. */
static size_t dense_bytes(size_t n, size_t bytes) {
    enum { FEW_BLOCKS = 8, MANY_BLOCKS = 4096, MUCH = 8 };
    if (bytes < HK_HUGE_PAGES_FROM || hk_option(thp) == 0 || !hk_huge_pages_fill(bytes) ||
        !hk_huge_pages_pay())
        return 0;
    const size_t most = bytes - n > bytes / MUCH ? MANY_BLOCKS : FEW_BLOCKS;
    return hk_large_huge_blocks() < most ? (n + HK_UNIT / 8) / HK_UNIT * HK_UNIT : bytes;
}

/* How many of a huge block's first bytes should get cached pages: those that will probably be
 * written to; or all, if ranges can only be used whole. */
static size_t front_of(size_t bytes) {
    return bytes % HK_UNIT == 0 && hk_region_moves() ? hk_written_usually(bytes) : bytes;
}

/* Takes a range of `bytes` for a block of n bytes. If the cache holds less, remote frees are
 * collected first: superslabs that become empty go to the cache. */
static bool take_range(size_t n, size_t bytes, size_t align, size_t front, hk_range_t *range,
                       size_t *dirty) {
    hk_assert(hk_is_aligned(bytes, HK_SLICE) && hk_is_aligned(align, HK_UNIT));
    if (hk_region_cached() < bytes)
        hk_heap_collect_pending();
    if (bytes % HK_UNIT != 0)
        return hk_region_take(bytes, align, 0, range, dirty);
    const hk_range_t before = {inverted(latest.start), latest.bytes, latest.mixed};
    if (latest.start != NULL && hk_map_kind(before.start) == HK_KIND_HUGE)
        learn(&before, false);
    const size_t dense = hk_min(dense_bytes(n, bytes), front);
    if (!hk_region_take_front(bytes, align, dense, front, range, dirty))
        return false;
    if (*dirty != 0)
        return true;
    latest = (hk_range_t){inverted(range->start), range->bytes, range->mixed};
    if (dense != 0)
        hk_huge_pages_try(range->start, dense);
    else
        hk_huge_pages_pass(bytes);
    return true;
}

static void *huge_alloc(size_t n, size_t align, size_t *dirty) {
    huge_t *huge = hk_stock_take(&stock);
    const size_t bytes = huge_bytes(n);
    if (bytes % HK_UNIT == 0)
        hk_written_asked(bytes);
    const size_t front = front_of(bytes);
    if (huge == NULL || !take_range(n, bytes, align, front, &huge->range, dirty)) {
        if (huge != NULL)
            hk_stock_put(&stock, huge);
        hk_count(huge_failures, 1);
        return NULL;
    }
    huge->clean = *dirty;
    huge->wanted = huge->range.bytes;
    publish(huge);
    hk_add_relaxed(&live, (size_t)1);
    hk_count(huge_allocs, 1);
    hk_count(touched, hk_minus(front, *dirty));
    if (*dirty < front)
        hk_purge_instead();
    else if (*dirty == huge->range.bytes)
        *dirty = hk_purge_tail(huge->range.start, n, *dirty);
    return huge->range.start;
}

size_t hk_large_huge_blocks(void) { return hk_load_relaxed(&live); }

/* Sets the run's tail for a block of n bytes. A fresh run's tail has no memory, although the
 * figures count it as touched. */
HK_INLINE void set_tail(hk_slab_t *run, size_t n) {
    const unsigned tail = (uint16_t)-n & ~(unsigned)HK_TAIL_FLAGS;
    hk_assert(run->slices == slices_for(n));
    hk_store_relaxed(&run->free, (uint16_t)(tail | (run->zeroed ? HK_TAIL_CLEAN : 0)));
}

/* `mapped`: only from superslabs there are. */
HK_INLINE void *run_alloc(hk_heap_t *heap, size_t n, size_t align, bool mapped, size_t *dirty) {
    const unsigned slices = slices_for(n), at = slices_for(align);
    hk_slab_t *run = mapped || at != 1 ? NULL : hk_stash_take(&heap->stash, slices);
    if (run != NULL) {
        set_tail(run, n);
        hk_map_set(run->base, 1, HK_KIND_LARGE); /* from here on a purge may hold the tail */
        *dirty = n;
        return run->base;
    }
    run = hk_pool_take_mapped(slices, 0, at);
    if (run == NULL && !mapped)
        run = hk_heap_take_slices(heap, slices, 0, at);
    if (run == NULL)
        return NULL;
    set_tail(run, n);
    if (run->zeroed && !mapped) {
        hk_stash_clear_own(&heap->stash);
        hk_purge_instead();
    }
    hk_assert(run->cls == 0 && run->slices == slices);
    *dirty = run->zeroed ? 0 : n;
    return run->base;
}

/* While memory is bounded: no block is rounded up far or takes a mapping if that can be avoided.
 * Slices that are free already cost nothing more. */
static HK_COLD void *bounded_alloc(hk_heap_t *heap, size_t n, size_t align, size_t *dirty) {
    *dirty = n;
    const bool small = n <= HK_PACK_MOST, packs = align <= HK_PACK_ALIGN;
    void *p = small && packs ? hk_pack_alloc(n, align) : NULL;
    if (p == NULL)
        p = run_alloc(heap, n, align, !small || packs, dirty);
    return p != NULL || small ? p : huge_alloc(n, HK_UNIT, dirty);
}

void *hk_large_alloc(hk_heap_t *heap, size_t n, size_t align, size_t *dirty) {
    hk_assert(n <= HK_MOST_BYTES && align <= HK_MOST_BYTES && hk_is_pow2(align));
    n = hk_max(n, 1);
    if (n > LARGE_MAX || align >= HK_UNIT)
        return huge_alloc(n, hk_max(align, HK_UNIT), dirty);
    return HK_LIKELY(!hk_region_is_bounded()) ? run_alloc(heap, n, align, false, dirty)
                                              : bounded_alloc(heap, n, align, dirty);
}

/* The descriptor of the large run that starts at p; `if_not`: the error if none does. */
static hk_slab_t *run_at(const void *p, hk_fatal_t if_not) {
    hk_slab_t *run = hk_slab_of(p);
    if (run == NULL || run->base != p)
        hk_fatal(if_not, p);
    hk_assert(run->cls == 0);
    return run;
}

/* Claims the run for this free: if several threads free it, one gets it. */
static hk_slab_t *claim_run(void *p) {
    hk_slab_t *run = run_at(p, HK_INVALID_FREE);
    if (!hk_map_change(p, HK_KIND_LARGE, HK_KIND_FREE)) /* two threads freed it at once */
        hk_fatal(HK_DOUBLE_FREE, p);
    return run;
}

static huge_t *huge_at(const void *p, hk_fatal_t if_not) {
    huge_t *huge = hk_map_owner(p);
    if (huge == NULL || huge->range.start != p)
        hk_fatal(if_not, p);
    return huge;
}

static huge_t *claim_huge(void *p) {
    huge_t *huge = huge_at(p, HK_INVALID_FREE);
    if (hk_map_set_owner(p, NULL) != huge) /* two threads freed it at once */
        hk_fatal(HK_DOUBLE_FREE, p);
    return huge;
}

/* How many of a freed block's first bytes go to the cache. The next block has use for pages, not
 * for addresses without any. */
static size_t worth_keeping(const huge_t *huge) {
    enum { MUCH = 32 * HK_MIB, HARDLY_ANY = 16, FILLED = 4 };
    const size_t bytes = huge->range.bytes;
    if (bytes % HK_UNIT != 0 || huge->clean >= bytes)
        return bytes;
    const size_t written = hk_written_of(huge->range.start, bytes, huge->clean);
    if (written == bytes)
        learn(&huge->range, true);
    else if (bytes - written >= bytes / FILLED)
        hk_huge_pages_distrust();
    /* to move the pages of a cached range takes longer than a fresh range if there are hardly
     * any */
    if (bytes >= MUCH && written <= hk_align_up(bytes / HARDLY_ANY, HK_UNIT))
        return 0;
    return front_of(bytes) != bytes ? written : bytes;
}

static void give_range(const hk_range_t *range, size_t kept) {
    if (kept != range->bytes)
        hk_region_return((hk_range_t){range->start + kept, range->bytes - kept, range->mixed});
    if (kept != 0)
        hk_region_give((hk_range_t){range->start, kept, range->mixed});
}

static HK_NOINLINE size_t free_huge(huge_t *huge) {
    size_t bytes = huge->range.bytes;
    hk_assert(hk_load_relaxed(&live) != 0);
    hk_assert(hk_map_owner(huge->range.start) != huge); /* claim_huge() has cleared it */
    hk_sub_relaxed(&live, (size_t)1);
    forget(huge->range.start);
    give_range(&huge->range, worth_keeping(huge));
    hk_stock_put(&stock, huge);
    return bytes;
}

static _Atomic(hk_slab_t *) late_runs; /* atomic: any thread */
static _Atomic(void *) late_huge;      /* atomic: any thread */
atomic_bool hk_large_aside;            /* atomic: any thread; set after a push */

/* Linked through the descriptor's list field, which a large run does not use. */
static HK_COLD void put_run_aside(hk_slab_t *run) {
    HK_PUSH(&late_runs, run->next, run);
    hk_store_seq(&hk_large_aside, true);
}

/* Frees a run whose tail is, or was, held, or is gone. Not to the stash, which does not know which
 * pages are gone. */
static HK_COLD size_t free_purged(hk_slab_t *run) {
    if (!hk_tail_is_held(run))
        return hk_pool_give(run);
    put_run_aside(run);
    return 0;
}

static size_t free_run(hk_heap_t *heap, hk_slab_t *run) {
    if (HK_UNLIKELY((hk_load_seq(&run->free) & (HK_TAIL_HELD | HK_TAIL_GONE)) != 0))
        return free_purged(run);
    return hk_region_is_bounded() ? hk_pool_give(run) : hk_stash_put(&heap->stash, run);
}

size_t hk_large_free(hk_heap_t *heap, void *p, unsigned kind) {
    hk_assert(hk_large_is(kind));
    if (kind == HK_KIND_LARGE)
        return free_run(heap, claim_run(p));
    return kind == HK_KIND_PACKED ? hk_pack_free(p) : free_huge(claim_huge(p));
}

/* ---- put aside ---- */

void hk_large_put_aside(void *p, unsigned kind) {
    hk_assert(hk_large_is(kind));
    if (kind == HK_KIND_PACKED) {
        hk_pack_put_aside(p);
    } else if (kind == HK_KIND_LARGE) {
        put_run_aside(claim_run(p));
    } else {
        huge_t *huge = claim_huge(p);
        hk_map_set(p, 1, HK_KIND_FREE);
        HK_PUSH(&late_huge, huge->kept.unused_next, huge);
    }
    hk_store_seq(&hk_large_aside, true);
}

size_t hk_large_free_late(void) {
    hk_assert(hk_lock_may_take(HK_RANK_POOL));
    hk_store_seq(&hk_large_aside, false);
    size_t bytes = hk_pack_free_late();
    for (hk_slab_t *run = hk_exchange_seq(&late_runs, NULL), *next; run != NULL; run = next) {
        next = run->next;
        bytes += free_purged(run);
    }
    for (huge_t *huge = hk_exchange_seq(&late_huge, NULL), *next; huge != NULL; huge = next) {
        next = huge->kept.unused_next;
        bytes += free_huge(huge);
    }
    return bytes;
}

size_t hk_large_usable(const void *p, unsigned kind) {
    hk_assert(hk_large_is(kind));
    if (kind == HK_KIND_LARGE) {
        const hk_slab_t *run = run_at(p, HK_INVALID_POINTER);
        return run->slices * HK_SLICE - hk_tail_bytes(hk_load_relaxed(&run->free));
    }
    return kind == HK_KIND_PACKED ? hk_pack_usable(p) : huge_at(p, HK_INVALID_POINTER)->range.bytes;
}

/* A block that has grown once will grow again: an eighth of untouched address space goes on top,
 * unless memory is bounded. */
static void *huge_grow(huge_t *huge, size_t bytes) {
    hk_assert(bytes > huge->range.bytes);
    char *old = huge->range.start;
    const size_t before = huge->range.bytes;
    if (huge->clean < before)
        learn(&huge->range, true);
    huge->clean = SIZE_MAX;
    if (hk_region_extend(&huge->range, bytes)) {
        publish_tail(huge, before);
        return old;
    }
    forget(old);
    hk_map_set_owner(old, NULL);
    hk_map_set(old, hk_slices_of(before), HK_KIND_FOREIGN);
    const size_t most = hk_region_is_bounded() ? bytes : hk_align_up(bytes + bytes / 8, HK_UNIT);
    const bool moved = hk_region_move(&huge->range, bytes, most);
    publish(huge);
    return moved ? huge->range.start : NULL;
}

/* Shrinks a block to `bytes`, of which it uses n. */
static void huge_shrink(huge_t *huge, size_t n, size_t bytes) {
    hk_assert(bytes != 0 && bytes < huge->range.bytes);
    if (huge->range.bytes % HK_UNIT != 0) {
        hk_region_extend(&huge->range, bytes);
        publish_tail(huge, bytes); /* sets kinds again if the system refused */
        return;
    }
    bytes = hk_align_up(bytes, HK_UNIT);
    hk_assert(bytes <= huge->range.bytes); /* also when rounded up */
    forget(huge->range.start);
    hk_purge_cut(huge->range.start, n, bytes);
    hk_range_t tail = {huge->range.start + bytes, huge->range.bytes - bytes, huge->range.mixed};
    if (tail.bytes == 0)
        return;
    huge->range.bytes = bytes;
    hk_walk(is_valid(huge));
    hk_region_give(tail);
}

/* Address space on top for growth stays until a request takes less than the one before. */
static void *huge_resize(void *p, size_t n, size_t bytes) {
    huge_t *huge = huge_at(p, HK_INVALID_POINTER);
    const size_t before = huge->range.bytes;
    void *q = p;
    hk_walk(is_valid(huge));
    if (bytes > before)
        q = huge_grow(huge, bytes);
    else if (bytes < huge->wanted && (before - bytes >= HK_UNIT || before / 2 > bytes))
        huge_shrink(huge, n, bytes);
    if (q != NULL)
        huge->wanted = bytes;
    return q;
}

/* The slices behind the run may be on the stash: if it cannot grow, the stash is cleared first. */
static void *run_resize(hk_heap_t *heap, void *p, size_t n) {
    hk_slab_t *run = run_at(p, HK_INVALID_POINTER);
    if (n > LARGE_MAX)
        return NULL;
    const unsigned slices = slices_for(n), before = run->slices;
    if (!hk_pool_resize(run, slices)) {
        hk_stash_clear_own(&heap->stash);
        if (!hk_pool_resize(run, slices))
            return NULL;
    }
    if (slices < before) { /* a run that grew will probably grow again: it has no tail */
        run->zeroed = false;
        set_tail(run, n);
    }
    return p;
}

void *hk_large_resize(hk_heap_t *heap, void *p, unsigned kind, size_t n) {
    hk_assert(hk_large_is(kind) && n > HK_MID_MAX);
    if (n > HK_MOST_BYTES)
        return NULL;
    if (kind == HK_KIND_LARGE)
        return run_resize(heap, p, n);
    if (kind == HK_KIND_PACKED)
        return n <= HK_PACK_MOST && hk_pack_resize(p, n) ? p : NULL;
    if (n <= LARGE_MAX / 2 && !hk_region_is_bounded()) {
        /* the copy reads no more than a unit, the rest goes back first */
        huge_resize(p, HK_UNIT, HK_UNIT);
        return NULL;
    }
    return huge_resize(p, n, huge_bytes(n));
}
