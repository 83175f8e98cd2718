/* Shared by superslab.c (the pool of slices), superslab_memory.c (their memory) and
 * superslab_look.c (visits, figures, claims for purges). */
#pragma once

#include "backend/meta.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/lock.h"

typedef struct {
    uint64_t bits[HK_SLICES][HK_BITMAP_WORDS];
    _Atomic uint64_t remote[HK_SLICES][HK_BITMAP_WORDS];
} hk_wide_bits_t;

/* The shadow that the slabs which start at a slice use, one after the other. */
typedef struct {
    _Atomic uint16_t *at;
    unsigned lines; /* length in cache lines; 0: none yet */
} hk_shadow_t;

/* Equation: free, claimed and the runs of the carved slabs partition the slices of whole. fresh,
 * lazy and seen are disjoint subsets of free; purged is a subset of free; wiped is a subset of free
 * | claimed; holes and whole are disjoint. holey slices are claimed, or free and neither fresh nor
 * lazy; gone is 0 for all others. Lock: pool, for everything but slabs[]. */
struct hk_superslab {
    hk_superslab_head_t at;
    uint8_t head[HK_SLICES];            /* for each slice, the first slice of its run */
    _Alignas(HK_CACHE_LINE) char *base; /* NULL: no memory. Apart from `head`, which frees read */
    uint32_t whole;                     /* const while mapped. 1: the slice is there */
    uint32_t holes;                     /* const while mapped. 1: the slice is inaccessible */
    uint32_t free;                      /* 1: the slice is free */
    uint32_t fresh;                     /* 1: the slice reads as zero */
    uint32_t lazy;    /* 1: the system may take the slice's memory, or has taken it */
    uint32_t seen;    /* 1: the slice was free and had memory at the last look */
    uint32_t claimed; /* 1: the slice is being purged */
    uint32_t purged;  /* 1: the slice was given back, and has not been used since */
    uint32_t wiped;   /* 1: a slab left the slice reading as zero, and it still should */
    /* 1: some OS pages of the slice have no memory: the last slab or tail there gave them back */
    uint32_t holey;
    uint16_t gone[HK_SLICES]; /* for each slice; 1: the OS page has no memory */
    bool no_huge_pages;       /* huge pages were ruled out for the superslab, or never asked for */
    uint8_t list;             /* the list it is on; 0: none */
    bool filled;   /* a huge page brought in all of it, so that fresh slices have memory */
    bool hollow;   /* while detached: more than half of it was given back */
    uint32_t left; /* while detached: bytes that had memory until then */
    hk_superslab_t *next, **link; /* on that list; *link is this one */
    hk_stocked_t kept;
    hk_shadow_t *shadows; /* const once set; one for each slice; NULL until a slab has one */
    /* atomic: any thread; set once: a shadow here had bits other than 0 at first, so unused ones
     * may not be 0 */
    atomic_bool early;
    bool marked; /* const while mapped; some holes are marks in the page tables (hk_os_mark) */
    hk_slab_t slabs[HK_SLICES];
    hk_remote_t remotes[HK_SLICES];
    /* atomic: any thread, const once set. Bitmaps of slabs for which few_bits is too short; NULL
     * until there is one */
    _Atomic(hk_wide_bits_t *) wide;
};
_Static_assert(offsetof(hk_superslab_t, remotes) - offsetof(hk_superslab_t, slabs) ==
                   HK_SLICES * sizeof(hk_slab_t),
               "hk_remote_of()");

extern hk_lock_t hk_pool_lock;

HK_INLINE uint32_t hk_slice_mask(unsigned first, unsigned n) {
    return (n == HK_SLICES ? UINT32_MAX : (1u << n) - 1) << first;
}

HK_INLINE hk_superslab_t *hk_superslab_of(const hk_slab_t *slab) {
    return (hk_superslab_t *)((uintptr_t)(slab - slab->first) - offsetof(hk_superslab_t, slabs));
}

/* Bytes of its address range. */
HK_INLINE size_t hk_superslab_bytes(const hk_superslab_t *ss) {
    return (size_t)hk_ones(ss->whole | ss->holes) * HK_SLICE;
}

/* The free slices that have memory, apart from pages that are gone. */
HK_INLINE uint32_t hk_superslab_dirty(const hk_superslab_t *ss) {
    return ss->free & ~(ss->fresh | ss->lazy);
}

/* ---- the pool; with it locked ---- */

/* Bytes of pages of these slices that have no memory. */
size_t hk_superslab_gone(const hk_superslab_t *ss, uint32_t slices);
/* Forgets which pages of these slices have no memory. */
void hk_superslab_forget_gone_locked(hk_superslab_t *ss, uint32_t slices);

/* Moves the superslab to the list it belongs on, after its free slices have changed. */
void hk_pool_relist_locked(hk_superslab_t *ss);

/* ---- memory ---- */

/* Adds a superslab with a run of at least `slices` free slices. False: out of memory. */
bool hk_superslab_add(unsigned slices, unsigned cls);

/* Detaches a wholly free superslab from its memory, which the caller releases without the lock.
 * bytes == 0: the system refused, and nothing has changed. */
hk_range_t hk_superslab_detach_locked(hk_superslab_t *ss);
void hk_superslab_release(hk_superslab_t *ss, hk_range_t range);

/* If the heap is guarded, gives a new slab its shadow and makes its memory read as zero, except
 * where a write after free has changed wiped memory. False: out of memory. */
bool hk_superslab_guard(hk_slab_t *slab);

/* Whether free memory of slabs reads as zero, except blocks that were free before the guard. */
bool hk_superslab_wipes(void);

/* Whether `bytes` bytes at offset `from` of the slab read as zero, given that all blocks there are
 * free. */
bool hk_superslab_is_wiped(const hk_slab_t *slab, size_t from, size_t bytes);

/* ---- looks; with the pool locked ---- */

/* The next superslab that has memory (from NULL to the first); NULL: there are no more. After a
 * peak very many may have none: it returns one of these after 256, to bound how long the pool stays
 * locked. */
hk_superslab_t *hk_superslab_next_locked(const hk_superslab_t *ss);

/* Calls `visit` for each carved slab and large run of the superslab. */
void hk_superslab_visit_locked(const hk_superslab_t *ss, hk_slab_visitor_t *visit, void *argument);
