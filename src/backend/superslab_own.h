/* What the files of superslabs share: superslab.c has the pool of slices, superslab_memory.c gets its memory,
 * superslab_look.c looks at what there is and claims it for purges. */
#pragma once

#include "backend/meta.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/lock.h"

typedef struct {
    uint64_t bits[HK_SLICES][HK_BITMAP_WORDS];
    _Atomic uint64_t remote[HK_SLICES][HK_BITMAP_WORDS];
} hk_wide_bits_t;

/* Room for a slab's shadow, which the slabs that start at a slice have one after the other. */
typedef struct {
    _Atomic uint16_t *at;
    unsigned lines; /* of the processor's cache; 0: none yet */
} hk_shadow_t;

/* Equation: free, claimed and the runs of the carved slabs partition the slices of whole; fresh,
 * lazy and seen are disjoint subsets of free, and purged is one too; wiped is one of free and claimed; holes and whole are
 * disjoint; holey slices are claimed, or free and neither fresh nor lazy, and gone is 0 but for them.
 * Lock: pool, for everything but slabs[]. */
struct hk_superslab {
    hk_superslab_head_t at;
    uint8_t head[HK_SLICES];            /* the first slice of each one's run */
    _Alignas(HK_CACHE_LINE) char *base; /* NULL: without memory. Apart from what frees look at */
    uint32_t whole;                     /* const while mapped. 1: the slice is there */
    uint32_t holes;   /* const while mapped. 1: nobody can read or write the slice */
    uint32_t free;    /* 1: the slice is free */
    uint32_t fresh;   /* 1: the slice reads as zero */
    uint32_t lazy;    /* 1: the system may take the slice's memory, or has */
    uint32_t seen;    /* 1: the slice was free and had memory at the last look */
    uint32_t claimed; /* 1: the slice is being purged */
    uint32_t purged;  /* 1: the slice has been, and nobody had it since */
    uint32_t wiped;   /* 1: a slab has left the slice reading as zero, as it still should */
    uint32_t holey; /* 1: OS pages of the slice are gone: the slab that was there gave them back */
    uint16_t gone[HK_SLICES]; /* of each slice; 1: the page is */
    bool no_huge_pages;       /* they have been ruled out for the superslab, or never asked for */
    uint8_t list;             /* which list it is on, or 0: on none */
    bool filled;              /* what is fresh has memory all the same: a huge page's */
    bool hollow;              /* without base: most of it was given back */
    uint32_t left;            /* without base: bytes that had memory to the end */
    hk_superslab_t *next, **link; /* on that list; *link is this one */
    hk_stocked_t kept;
    hk_shadow_t *shadows; /* const once set; of each slice; NULL until a slab has one */
    atomic_bool early;    /* atomic: any thread; set once: not all of it is 0 where no slab is */
    bool marked;          /* const while mapped; some of the holes are marks in the page tables */
    hk_slab_t slabs[HK_SLICES];
    hk_remote_t remotes[HK_SLICES];
    /* atomic: any thread, const once set. The bitmaps of slabs whose own are too short; NULL until there is one */
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

/* Of its memory. */
HK_INLINE size_t hk_superslab_bytes(const hk_superslab_t *ss) {
    return (size_t)hk_ones(ss->whole | ss->holes) * HK_SLICE;
}

/* The free slices that have memory, for certain. */
HK_INLINE uint32_t hk_superslab_dirty(const hk_superslab_t *ss) {
    return ss->free & ~(ss->fresh | ss->lazy);
}

/* ---- the pool; with it locked ---- */

/* Of these slices the bytes of pages that are gone. */
size_t hk_superslab_gone(const hk_superslab_t *ss, uint32_t slices);
/* From now on none of theirs is known to be. */
void hk_superslab_forget_gone_locked(hk_superslab_t *ss, uint32_t slices);

/* After its free slices have changed: puts the superslab on the list that it belongs on. */
void hk_pool_relist_locked(hk_superslab_t *ss);

/* ---- memory ---- */

/* Adds a superslab in which there are as many slices in a row. False: out of memory. */
bool hk_superslab_add(unsigned slices, unsigned cls);

/* Parts a wholly free superslab from its memory, which the caller releases without the lock; no bytes: the system
 * refused, and nothing has changed. */
hk_range_t hk_superslab_detach_locked(hk_superslab_t *ss);
void hk_superslab_release(hk_superslab_t *ss, hk_range_t range);

/* Where the bits of a slab's blocks are, if somebody guards the heap; its memory reads as zero then, but for what
 * somebody wrote to whose memory it is not. False: there is no memory for the bits. */
bool hk_superslab_guard(hk_slab_t *slab);

/* Whether what is free of a slab reads as zero at all, but for blocks from before the guard. */
bool hk_superslab_wipes(void);

/* Whether what of the slab lies in so many bytes from there on reads as zero, if all blocks that it is of are free. */
bool hk_superslab_is_wiped(const hk_slab_t *slab, size_t from, size_t bytes);

/* ---- looks; with the pool locked ---- */

/* The next superslab that has memory, from NULL to the first; NULL: there is none. After a peak there may be very many without:
 * now and then it is one of them, so that nobody goes through them all with the pool locked. */
hk_superslab_t *hk_superslab_next_locked(const hk_superslab_t *ss);

/* Calls `visit` for each carved slab and large run. */
void hk_superslab_visit_locked(const hk_superslab_t *ss, hk_slab_visitor_t *visit, void *argument);
