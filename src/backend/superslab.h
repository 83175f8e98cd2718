/* Superslabs: 2 MiB of address space cut into 32 slices, and the shared pool of their free slices.
 *
 * A run of slices becomes a slab (blocks of one class) or a large run (one block). The descriptors
 * lie apart from the memory they describe and are type-stable: never unmapped, never zeroed,
 * because a late remote free may still touch one after its slab was retired (backend/heap.c). */
#pragma once

#include "backend/pagemap.h"
#include "backend/sizeclass.h"
#include "base/base.h"
#include "os/os.h"

enum {
    HK_SLICES = 32,
    HK_BITMAP_WORDS = HK_SLAB_MAX_BLOCKS / 64,
    HK_FEW_WORDS = 16 /* enough for a class of 64 bytes or more */
};
_Static_assert(HK_SLICES *HK_SLICE == HK_UNIT, "a superslab is one unit");

typedef struct hk_heap hk_heap_t;
typedef struct hk_slab hk_slab_t;
typedef struct hk_superslab hk_superslab_t;

/* A slab's descriptor, or a large run's (cls 0).
 *
 * Equation: free bits + claimed for a purge + remote bits + blocks in magazines + blocks in use ==
 * blocks; free == popcount(bits[0..words)); summary bit w set <=> bits[w] != 0. Written only by the
 * holder of the lock of the heap that owns the slab or, while owner is NULL, by the thread that
 * holds the slices. What a flush touches lies in the first cache line, with the first bitmap word:
 * the whole bitmap of a class of 1024 bytes or more. */
struct hk_slab {
    /* atomic: written as above, read by any thread */
    _Alignas(HK_CACHE_LINE) _Atomic(hk_heap_t *) owner;
    char *base;             /* first block, or the large block itself */
    uint64_t summary;       /* owner */
    hk_slab_t *next, *prev; /* owner: the heap's list of its class */
    _Atomic uint16_t free; /* owner writes; any thread reads; in a large run its tail (HK_TAIL_*) */
    uint8_t cls;           /* const while carved; 0 for a large run */
    uint8_t slices;        /* const while carved */
    uint8_t first;         /* const while carved: number of the first slice */
    bool zeroed;           /* its memory read as zero when it was carved */
    bool listed;           /* owner: the slab is on the heap's list of its class */
    bool marked;           /* owner: clean or seen has a bit set */
    uint64_t *bits;        /* const while carved; owner: 1 is a free block */
    uint64_t few_bits[HK_FEW_WORDS]; /* `bits` points here if this is enough */
    _Atomic uint64_t clean;          /* owner writes: OS pages without memory (backend/slab.h) */
    _Atomic uint64_t lazy; /* owner writes: clean, and the system may not have taken them yet */
    uint64_t seen;         /* owner: OS pages that were free at the last look */
    uint64_t purged; /* owner: clean pages that were given back, under this slab or one before it */
};
_Static_assert(offsetof(hk_slab_t, few_bits) == HK_CACHE_LINE - 8, "a word in the first line");

/* The part of a slab's descriptor that other threads write. A superslab's lie together, behind its
 * descriptors: beside the owner's fields they would cause false sharing, and while there are no
 * remote frees this memory is never touched. */
typedef struct {
    /* atomic: 1 while on a pending list or being put there */
    _Alignas(HK_CACHE_LINE) atomic_uint pending;
    hk_slab_t *pending_next;                 /* the thread that set `pending` */
    _Atomic uint64_t few_bits[HK_FEW_WORDS]; /* see hk_remote_bits() */
    char padding[HK_CACHE_LINE];
} hk_remote_t;
_Static_assert(sizeof(hk_remote_t) == sizeof(hk_slab_t), "the arrays run in parallel");

/* Computed from the slab's address alone: a pointer in the descriptor would cost the freeing thread
 * a miss on a cache line that the owner writes. */
HK_INLINE hk_remote_t *hk_remote_of(const hk_slab_t *slab) {
    return (hk_remote_t *)((uintptr_t)slab + HK_SLICES * sizeof *slab);
}

HK_INLINE unsigned hk_class_words(const hk_class_t *c) { return (c->blocks + 63u) / 64; }

/* The blocks of the slab, of class c, that other threads freed and the owner has not collected
 * yet. */
_Atomic uint64_t *hk_remote_wide_bits(const hk_slab_t *slab);
HK_INLINE _Atomic uint64_t *hk_remote_bits(const hk_slab_t *slab, const hk_class_t *c) {
    if (HK_LIKELY(hk_class_words(c) <= HK_FEW_WORDS))
        return hk_remote_of(slab)->few_bits;
    return hk_remote_wide_bits(slab);
}

/* The slab or large run that p lies in, at any of its slices; NULL if no descriptor is set there.
 * The caller knows by the kind that no huge block or pack is there. */
hk_slab_t *hk_slab_of(const void *p);

/* Takes a run of `slices` slices for blocks of class `cls`, or for a large run (cls 0), which
 * starts at a multiple of `align` slices, a power of two; for a slab that is 1. A slab comes with
 * all blocks free, its kind bytes set, no owner, and on no list. NULL: out of memory. */
hk_slab_t *hk_pool_take(unsigned slices, unsigned cls, unsigned align);

/* The same, only from superslabs there are; calls the system at most for the allocator's own
 * memory. */
hk_slab_t *hk_pool_take_mapped(unsigned slices, unsigned cls, unsigned align);

/* Gives back a slab whose blocks are all free, or a large run; returns its bytes. Any thread; the
 * owner is NULL. */
size_t hk_pool_give(hk_slab_t *slab);

/* Changes the number of slices of a large run in place, and clears its tail. False: the slices
 * behind it are not free, or a purge holds the tail. */
bool hk_pool_resize(hk_slab_t *slab, unsigned slices);

/* A large run's tail: its OS pages behind the one in which the requested size ends. No thread may
 * use them; if the block lives long, a purge takes their memory. hk_slab.free holds the tail's
 * bytes and, in the bits below a page, these flags. The block's owner writes it or, while it is
 * held, the purging thread; meanwhile the run stays carved and keeps its size. Dekker pair: a purge
 * sets HELD, then reads the block's kind; a free changes the kind, then reads HELD. */
enum {
    HK_TAIL_HELD = 1,  /* a purge holds it */
    HK_TAIL_SEEN = 2,  /* it was there at the last look that marks tails */
    HK_TAIL_CLEAN = 4, /* it has no memory, or the system may take it or has refused to */
    HK_TAIL_GONE = 8,  /* its memory was given back for certain */
    HK_TAIL_FLAGS = 15
};
HK_INLINE size_t hk_tail_bytes(unsigned tail) {
    return tail & -hk_load_relaxed(&hk_os_page_bytes); /* read before there are runs */
}

HK_INLINE bool hk_tail_is_held(const hk_slab_t *run) {
    return (hk_load_seq(&run->free) & HK_TAIL_HELD) != 0;
}

/* Bytes that purges gave back and that were handed out again since. Any thread. */
extern _Atomic uint64_t hk_pool_retaken;

/* Bytes of all slabs of a class; of class 0, of all large runs. */
size_t hk_pool_carved(unsigned cls);

/* ---- shadows: 16 bits for each block, kept apart from it, for the guard ----
 *
 * Where there are shadows, a slab reads as zero when it is carved. */

/* Gives each slab a shadow, those there are and all later ones. At first each block's bits are
 * `early`; in slabs carved after hk_pool_all_guarded() they are 0. The latter waits for no thread:
 * it is called only if none can still hand out blocks without marking them. `wiped`: all free
 * blocks read as zero, except early ones. False: out of memory. Called once, while the process
 * starts. */
bool hk_pool_add_shadows(uint16_t early, bool wiped);
void hk_pool_all_guarded(void);

/* The start of a superslab's descriptor, which is all that the search for a block's bits reads of
 * it. For each slice: the bits of its slab, and where that starts. Set before the slab's blocks are
 * handed out, and only while the heap is guarded. */
typedef struct {
    _Atomic uint16_t *shadow;
    const char *base;
} hk_shadows_t;
typedef struct {
    hk_shadows_t slices[HK_SLICES];
} hk_superslab_head_t;

/* Of the slice that p lies in; p is an address in a slab. */
HK_INLINE const hk_shadows_t *hk_shadows_at(const void *p) {
    /* the flat map ignores an address's highest bits, so this does too; hk_shadow_by() then finds
     * that no block starts at such an address */
    const size_t root = ((uintptr_t)p >> HK_LEAF_SHIFT) % HK_MAP_LEAVES;
    const hk_leaf_t *leaf = hk_load_acquire(&hk_map_root[root]);
    const hk_superslab_head_t *ss = (const void *)hk_load_acquire(&leaf->owner[hk_map_unit(p)]);
    return &ss->slices[((uintptr_t)p >> HK_SLICE_SHIFT) & (HK_SLICES - 1)];
}

/* The bits of the block that starts at p, an address in a slab of blocks of `size` bytes; NULL:
 * none starts there. Behind the last block there is one more entry, always 0. */
HK_INLINE _Atomic uint16_t *hk_shadow_by(const void *p, uint64_t reciprocal, size_t size) {
    const hk_shadows_t *slice = hk_shadows_at(p);
    const size_t offset = (size_t)((const char *)p - slice->base);
    const size_t index = (offset * reciprocal) >> 40; /* hk_class_index() */
    if (HK_UNLIKELY(index * size != offset))
        return NULL;
    _Atomic uint16_t *shadow = slice->shadow + index;
    if (shadow == NULL)
        __builtin_unreachable(); /* saves the caller's test: in a slab it is set */
    return shadow;
}

/* The bits of the block of class cls that starts at p, an address in a slab of that class; NULL:
 * none starts there. `quick`: an address behind the last block yields an entry that is always 0,
 * not NULL; not for class 1, where half of a slab lies behind its last block. */
HK_INLINE _Atomic uint16_t *hk_shadow_in(const void *p, size_t cls, bool quick) {
    const hk_class_t *c = &hk_classes[cls];
    _Atomic uint16_t *shadow = hk_shadow_by(p, c->reciprocal, c->size);
    if (!quick && shadow != NULL && (size_t)(shadow - hk_shadows_at(p)->shadow) >= c->blocks)
        return NULL;
    return shadow;
}

HK_INLINE _Atomic uint16_t *hk_shadow_of(const void *p, unsigned cls) {
    return hk_shadow_in(p, cls, false);
}

/* ---- for purging, see backend/purge.h ---- */

/* A superslab to purge, and the slabs (not large runs) carved from it at that moment; they may have
 * changed since. */
typedef struct {
    hk_superslab_t *superslab;
    char *base;
    uint32_t lazy; /* free slices whose memory the system may take, or has taken */
    /* other free slices, which should still read as zero, as their slabs left them */
    uint32_t wiped;
    bool huge_pages; /* it may have huge pages */
    unsigned count;
    hk_slab_t *slabs[HK_SLICES];
} hk_pool_cursor_t;

/* Moves on to the next superslab that has memory (from NULL to the first one); where many in a row
 * have none, to one of these. False: there are no more. */
bool hk_pool_next(hk_pool_cursor_t *cursor);

/* Which free memory is claimed. DIRTY: all that has memory. AGED: of that, only what was free at
 * the last look too. LAZY_TOO: all that has memory, and what the system may take but perhaps has
 * not taken yet. */
typedef enum { HK_CLAIM_DIRTY, HK_CLAIM_AGED, HK_CLAIM_LAZY_TOO } hk_claim_t;

/* Claims free slices, so that no thread takes them while they are purged; returns them as a mask.
 * Writes their address ranges, at most 16, to `ranges`. */
uint32_t hk_pool_claim(hk_superslab_t *superslab, hk_claim_t which, hk_os_range_t *ranges,
                       unsigned *count);

/* Puts claimed slices back. `purged`: those that have no memory now or, with `lazily`, whose memory
 * the system may take. Returns the bytes of memory that these had. Sets *seen if other free slices
 * will be old enough at the next look. */
size_t hk_pool_unclaim(hk_superslab_t *superslab, uint32_t claimed, uint32_t purged, bool lazily,
                       bool *seen);

/* Holds tails of large blocks while they are purged; with `aged` only those that are marked.
 * Returns the first slices of their runs as a mask. Writes their address ranges, at most 32, in the
 * same order, to `ranges`. */
uint32_t hk_pool_claim_tails(hk_superslab_t *superslab, bool aged, hk_os_range_t *ranges,
                             unsigned *count);

/* Lets go of held tails. Bit i of `purged`: the i-th one has no memory now or, with `lazily`, the
 * system may take it. */
void hk_pool_unclaim_tails(hk_superslab_t *superslab, uint32_t claimed, uint32_t purged,
                           bool lazily);

/* Looks for a write after free: in claimed memory that should read as zero, the first byte that
 * does not and, in a slab, the block it lies in with its size (else HK_NO_SIZE). at == NULL: there
 * is none, or the heap is not guarded. Clears each page that was written to. */
typedef struct {
    const char *at, *block;
    size_t bytes;
} hk_spoilt_t;
hk_spoilt_t hk_pool_look(hk_superslab_t *superslab, uint32_t claimed);
hk_spoilt_t hk_pool_look_at_pages(const hk_slab_t *slab, uint64_t claimed);

/* Marks huge pages as ruled out for the superslab, and sets *range to all of it. False: they were
 * ruled out before, or it has no memory. */
bool hk_pool_rule_out_huge_pages(hk_superslab_t *superslab, hk_os_range_t *range);

/* Gives all wholly free superslabs to the region cache, or to the system if most of their memory is
 * gone, including the one that is kept for reuse. */
void hk_pool_release_empty(void);

/* Bytes of all superslabs, and the most that there have been. Any thread. */
size_t hk_pool_mapped(void);
size_t hk_pool_mapped_most(void);

/* Free memory of some superslabs, in bytes. */
typedef struct {
    /* upper bound on what is free and resident: slices with memory, and blocks in slabs */
    size_t dirty;
    /* estimate of the part that lies on whole free OS pages, if free blocks are spread at random */
    size_t likely;
    size_t slices; /* the part of `dirty` that is slices */
    size_t clean;  /* slices and OS pages that have no memory, or may lose it at any time */
    /* marked tails of large blocks, or all with `marks`; not in `dirty`, but may have memory */
    size_t tails;
    bool marks; /* set by the caller: mark all tails, which makes them old from the next look on */
    size_t of_class[HK_CLASS_COUNT]; /* the part of `dirty` in slabs of each class */
} hk_pool_free_t;
/* Adds the next superslab's free memory (from NULL to the first); false: there are no more. */
bool hk_pool_add_free(hk_superslab_t **at, hk_pool_free_t *sum);

/* Calls `visit` for every carved slab and large run, with the pool locked for one superslab at a
 * time. Fields that a heap's lock guards may change meanwhile. */
typedef void hk_slab_visitor_t(const hk_slab_t *slab, void *argument);
void hk_pool_visit(hk_slab_visitor_t *visit, void *argument);

/* Calls `visit` for every slab descriptor there is, carved or not. No lock. */
void hk_pool_visit_descriptors(void (*visit)(hk_slab_t *slab));
