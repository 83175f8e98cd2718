/* Gives blocks back to the slabs they came from, and announces remote frees to the slabs' owners
 * (the protocol is in heap.c). */
#include "backend/heap_own.h"
#include "backend/pagemap.h"
#include "base/report.h"
#include "base/worker.h"
#include "stats/sections.h"

void hk_heap_announce(hk_slab_t *slab, bool held) {
    hk_remote_t *remote = hk_remote_of(slab);
    while (held ||
           (hk_load_seq(&remote->pending) == 0 && hk_exchange_seq(&remote->pending, 1u) == 0)) {
        hk_heap_t *owner = hk_load_seq(&slab->owner);
        if (owner != NULL) {
            HK_PUSH(&owner->pending, remote->pending_next, slab);
            return;
        }
        hk_store_seq(&remote->pending, 0u);
        if (hk_load_seq(&slab->owner) == NULL)
            return;
        held = false;
    }
}

/* A slab to which blocks are given. Once the last of its blocks has been given, another heap may
 * adopt, retire or recarve the slab: from then on only hk_heap_announce() touches its
 * descriptor. */
typedef struct {
    hk_slab_t *slab;
    const char *base; /* the slab's, read while a block still held the slab */
    const hk_class_t *c;
    bool own;
} giving_t;

/* Sets the free bits of the blocks in `mask` of one bitmap word; aborts if one is set already. */
HK_INLINE void set_bits(const giving_t *g, unsigned word, uint64_t mask) {
    uint64_t before;
    hk_assert(word * 64 < g->c->blocks && mask != 0);
    if (g->own) {
        before = g->slab->bits[word];
        g->slab->bits[word] = before | mask;
        g->slab->summary |= (uint64_t)1 << word;
    } else {
        before = hk_or_seq(&hk_remote_bits(g->slab, g->c)[word], mask);
    }
    uint64_t twice = before & mask;
    if (HK_UNLIKELY(twice != 0))
        hk_fatal(HK_DOUBLE_FREE,
                 g->base + (word * 64 + (unsigned)__builtin_ctzll(twice)) * (size_t)g->c->size);
}

/* The slab of a block that is given back. The kind is checked first: only for a size class does the
 * page map's owner point to a superslab. */
static hk_slab_t *slab_for(const char *p, unsigned cls) {
    if (HK_UNLIKELY(hk_map_kind(p) != cls))
        hk_fatal(HK_INVALID_FREE, p);
    hk_slab_t *slab = hk_slab_of(p);
    if (HK_UNLIKELY(slab == NULL || slab->cls != cls))
        hk_fatal(HK_INVALID_FREE, p);
    return slab;
}

HK_INLINE giving_t giving_to(hk_slab_t *slab) {
    return (giving_t){.slab = slab, .base = slab->base, .c = &hk_classes[slab->cls]};
}

HK_INLINE unsigned block_index(const giving_t *g, const char *p) {
    size_t offset = (size_t)(p - g->base);
    unsigned index = hk_class_index(g->c, offset);
    if (HK_UNLIKELY((size_t)index * g->c->size != offset || index >= g->c->blocks))
        hk_fatal(HK_INVALID_FREE, p);
    return index;
}

/* How many of blocks[0..n) lie `step` bytes apart one after the other. Compares eight at a time. */
HK_INLINE unsigned run_length(void *const *blocks, unsigned n, ptrdiff_t step) {
    const uint64_t by = (uint64_t)step, first = (uintptr_t)blocks[0];
    hk_two_t next = {first + by, first + 2 * by};
    unsigned run = 1;
    for (; run + 8 <= n; run += 8) {
        hk_two_t off = {0, 0};
        for (unsigned i = 0; i < 8; i += 2, next += 2 * by)
            off |= *(const hk_two_t *)(blocks + run + i) ^ next;
        if ((off[0] | off[1]) != 0)
            break;
    }
    while (run < n && (char *)blocks[run] - (char *)blocks[run - 1] == step)
        run++;
    return run;
}

/* Gives the leading blocks that are adjacent in address order, up or down, as one run within the
 * slab. Returns how many; 0, with nothing given, if the run is short. */
static unsigned give_in_order(const giving_t *g, void *const *blocks, unsigned n) {
    enum { FEW = 4 };
    const ptrdiff_t size = (ptrdiff_t)g->c->size;
    const ptrdiff_t step = n > 1 ? (char *)blocks[1] - (char *)blocks[0] : 0;
    if (step != size && step != -size)
        return 0;
    const unsigned index = block_index(g, blocks[0]);
    const unsigned most = (unsigned)hk_min(n, step > 0 ? g->c->blocks - index : index + 1);
    const unsigned run = run_length(blocks, most, step);
    if (run < FEW)
        return 0;
    const unsigned lo = step > 0 ? index : index + 1 - run, hi = lo + run - 1;
    for (unsigned w = lo / 64; w <= hi / 64; w++)
        set_bits(g, w, hk_bits_in(w, lo, hi));
    return run;
}

HK_INLINE bool lies_in(const giving_t *g, const char *p) {
    return (size_t)(p - g->base) < (size_t)g->c->slices * HK_SLICE;
}

/* Gives the leading blocks that lie in the slab; returns how many. To another heap's slab,
 * consecutive blocks whose bits share a word go by one atomic write, since blocks taken together
 * are mostly freed together. To the heap's own slab each block is written on its own: that costs
 * less than mispredicting whether the next bit is in the same word. */
static HK_NOINLINE unsigned give_together(const giving_t *g, void *const *blocks, unsigned n) {
    unsigned given = 0, word = 0;
    uint64_t mask = 0;
    for (; given < n && lies_in(g, blocks[given]); given++) {
        const unsigned index = block_index(g, blocks[given]);
        const uint64_t bit = (uint64_t)1 << index % 64;
        if (g->own) {
            set_bits(g, index / 64, bit);
            continue;
        }
        if (index / 64 != word || (mask & bit) != 0) {
            if (mask != 0)
                set_bits(g, word, mask);
            word = index / 64;
            mask = 0;
        }
        mask |= bit;
    }
    hk_assert(given != 0); /* the first block lies in the slab */
    if (!g->own)
        set_bits(g, word, mask);
    return given;
}

/* Gives blocks[0] and the blocks behind it that lie in the same slab; returns how many. */
static unsigned give_to_slab(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n) {
    giving_t g = giving_to(slab_for(blocks[0], cls));
    g.own = hk_load_relaxed(&g.slab->owner) == heap;
    unsigned given = give_in_order(&g, blocks, n);
    if (given == 0)
        given = give_together(&g, blocks, n);
    if (g.own) {
        hk_heap_gained(heap, g.slab, given);
    } else {
        hk_heap_count_locked(heap, HK_HEAP_COUNT_remote_frees, given);
        hk_heap_announce(g.slab, false);
    }
    return given;
}

/* Prefetches the descriptors that the first few blocks' frees will write. If their slabs differ,
 * the cache misses overlap. */
static void fetch(const hk_heap_t *heap, void *const *blocks, unsigned n, unsigned cls) {
    enum { MOST = 4 };
    hk_slab_t *slabs[MOST];
    n = (unsigned)hk_min(n, MOST);
    for (unsigned i = 0; i < n; i++) {
        slabs[i] = slab_for(blocks[i], cls);
        __builtin_prefetch(slabs[i], 1);
    }
    for (unsigned i = 0; i < n; i++)
        if (hk_load_relaxed(&slabs[i]->owner) != heap)
            __builtin_prefetch(hk_remote_of(slabs[i]), 1);
}

static HK_NOINLINE unsigned give(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n,
                                 unsigned least) {
    hk_assert(cls != 0 && cls < HK_CLASS_COUNT);
    unsigned given = 0;
    fetch(heap, blocks, n, cls);
    hk_lock(&heap->lock);
    while (given < least)
        given += give_to_slab(heap, cls, blocks + given, n - given);
    hk_heap_leave(heap);
    return given;
}

unsigned hk_heap_give_some(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n,
                           unsigned least) {
    return HK_TIMED_VALUE(flush, give(heap, cls, blocks, n, least));
}

void hk_heap_give(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n) {
    hk_heap_give_some(heap, cls, blocks, n, n);
}

/* ---- beside all locks, and in a fork's child ---- */

_Atomic uint64_t hk_heap_given_beside;

/* How many calls of give_beside() are under way: in all threads, and in this one (more than
 * one if a signal handler frees). */
static atomic_uint giving; /* atomic: any thread */
static _Thread_local unsigned own_giving;

HK_INLINE void give_beside(unsigned cls, void *p) {
    hk_assert(cls != 0 && cls < HK_CLASS_COUNT);
    giving_t g = giving_to(slab_for(p, cls));
    unsigned index = block_index(&g, p);
    own_giving++;
    hk_add_seq(&giving, 1u);
    set_bits(&g, index / 64, (uint64_t)1 << index % 64);
    hk_heap_announce(g.slab, false);
    hk_add_seq(&giving, -1u);
    own_giving--;
}

void hk_heap_give_remote(unsigned cls, void *p) {
    give_beside(cls, p);
    hk_add_relaxed(&hk_heap_given_beside, (uint64_t)1);
}

HK_COLD void hk_heap_give_idle(unsigned cls, void *p) { give_beside(cls, p); }

/* The thread that had set `pending` in the parent is not here, and the lists are empty. Only a slab
 * that a heap owns has remote bits. */
static void queue_anew(hk_slab_t *slab) {
    if (hk_load_relaxed(&hk_remote_of(slab)->pending) != 0)
        hk_store_relaxed(&hk_remote_of(slab)->pending, 0u);
    if (hk_load_relaxed(&slab->owner) == NULL)
        return;
    const hk_class_t *c = &hk_classes[slab->cls];
    const _Atomic uint64_t *remote = hk_remote_bits(slab, c);
    unsigned w = 0;
    while (w < hk_class_words(c) && hk_load_relaxed(&remote[w]) == 0)
        w++;
    if (w < hk_class_words(c))
        hk_heap_announce(slab, false);
}

/* Rebuilds all lists, since nothing tells which slabs are on none. Signals from outside are blocked
 * meanwhile, so no handler frees. */
static HK_COLD void queue_all_anew(void) {
    const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE);
    for (hk_heap_t *heap = hk_load_acquire(&hk_heap_all); heap != NULL; heap = heap->all_next)
        hk_store_relaxed(&heap->pending, NULL);
    hk_pool_visit_descriptors(queue_anew);
    hk_signals_block(before);
}

/* A thread counts itself in `giving` before it sets a bit: if the child sees a bit of a parent's
 * thread, which may be on no list and have no thread that will put it there, it also sees that
 * count. If this thread forks in a signal handler that has interrupted its own remote free, it
 * finishes that free in the child, and the lists stay as they are. */
void hk_heap_forked(void) {
    const unsigned own = own_giving;
    if (HK_LIKELY(hk_load_relaxed(&giving) == own))
        return;
    hk_store_relaxed(&giving, own);
    if (own == 0)
        queue_all_anew();
}
