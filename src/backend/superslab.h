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
    HK_FEW_WORDS = 16 /* of a class of 64 bytes and more */
};
_Static_assert(HK_SLICES *HK_SLICE == HK_UNIT, "a superslab is one unit");

typedef struct hk_heap hk_heap_t;
typedef struct hk_slab hk_slab_t;
typedef struct hk_superslab hk_superslab_t;

/* A slab's descriptor, or a large run's (cls 0).
 *
 * Equation: free bits + claimed for a purge + remote bits + blocks in magazines + blocks in use ==
 * blocks; free == popcount(bits[0..words)); summary bit w set <=> bits[w] != 0.
 * Who writes: only the holder of the lock of the heap that owns the slab, or, while owner is NULL,
 * whoever holds the slices. What a flush touches lies in the first cache line (and the first bitmap
 * word with it: all of a class above 1024 bytes). */
struct hk_slab {
    /* atomic: written as above, read by any thread */
    _Alignas(HK_CACHE_LINE) _Atomic(hk_heap_t *) owner;
    char *base;                      /* first block, or the large block itself */
    uint64_t summary;                /* owner */
    hk_slab_t *next, *prev;          /* owner: the heap's list of its class */
    _Atomic uint16_t free;           /* owner writes; statistics read; of a large run its tail */
    uint8_t cls;                     /* const while carved; 0 for a large run */
    uint8_t slices;                  /* const while carved */
    uint8_t first;                   /* const while carved: number of the first slice */
    bool zeroed;                     /* its memory read as zero when it was carved */
    bool listed;                     /* owner: is on a list */
    bool marked;                     /* owner: clean or seen is not 0 */
    uint64_t *bits;                  /* const while carved; owner: 1 is a free block */
    uint64_t few_bits[HK_FEW_WORDS]; /* where `bits` points if that is enough */
    _Atomic uint64_t clean;          /* owner writes: OS pages without memory (backend/slab.h) */
    _Atomic uint64_t lazy; /* owner writes: clean, and the system may not have taken them yet */
    uint64_t seen;         /* owner: OS pages that were free at the last look */
    uint64_t purged; /* owner: of clean, those that were given back, by it or by a slab before it */
};
_Static_assert(offsetof(hk_slab_t, few_bits) == HK_CACHE_LINE - 8, "a word in the first line");

/* What other threads write of a slab. All of a superslab's lie together, behind its descriptors:
 * beside what their owners write the one would drag the other's cache lines along, and where nobody
 * frees for others this memory is never touched. */
typedef struct {
    /* atomic: 1 while on a pending list or being put there */
    _Alignas(HK_CACHE_LINE) atomic_uint pending;
    hk_slab_t *pending_next;                 /* whoever set `pending` */
    _Atomic uint64_t few_bits[HK_FEW_WORDS]; /* see hk_remote_bits() */
    char padding[HK_CACHE_LINE];
} hk_remote_t;
_Static_assert(sizeof(hk_remote_t) == sizeof(hk_slab_t), "the arrays run in parallel");

/* Where it lies follows from the slab's address alone: to look it up in the descriptor, whoever
 * frees would first have to wait for a cache line that the owner writes. */
HK_INLINE hk_remote_t *hk_remote_of(const hk_slab_t *slab) {
    return (hk_remote_t *)((uintptr_t)slab + HK_SLICES * sizeof *slab);
}

HK_INLINE unsigned hk_class_words(const hk_class_t *c) { return (c->blocks + 63u) / 64; }

/* The blocks of the slab, of class c, that were freed by others and are not yet collected. */
_Atomic uint64_t *hk_remote_wide_bits(const hk_slab_t *slab);
HK_INLINE _Atomic uint64_t *hk_remote_bits(const hk_slab_t *slab, const hk_class_t *c) {
    if (HK_LIKELY(hk_class_words(c) <= HK_FEW_WORDS))
        return hk_remote_of(slab)->few_bits;
    return hk_remote_wide_bits(slab);
}

/* The slab or large run that p lies in; NULL if no superslab is there. Interior slices are
 * resolved. */
hk_slab_t *hk_slab_of(const void *p);

/* Takes a run of `slices` slices for blocks of class `cls` (0: a large run, which starts at a multiple of `align` slices, a power of
 * two; else that is 1). The bitmaps of a slab are all free; its kind bytes are set; it has no owner and is on no list. NULL: out of
 * memory. */
hk_slab_t *hk_pool_take(unsigned slices, unsigned cls, unsigned align);

/* The same, from superslabs that are there already; calls the system for the allocator's own memory at most. */
hk_slab_t *hk_pool_take_mapped(unsigned slices, unsigned cls, unsigned align);

/* Gives back a slab all of whose blocks are free, or a large run; returns its bytes. Any thread; owner is NULL. */
size_t hk_pool_give(hk_slab_t *slab);

/* Large runs: changes the number of slices without moving, and leaves no tail. Growing needs free slices behind; false, too, while a
 * tail is held. */
bool hk_pool_resize(hk_slab_t *slab, unsigned slices);

/* A large run's tail: the OS pages behind the one in which what was asked for ends. They are nobody's to use, and what lives
 * long gives their memory back: bytes, and below these what is known of them. The block's owner writes, or, while it is held,
 * whoever purges it: until then the run stays carved, and its size as it is. It is held first and the block's kind looked at
 * then; a free changes the kind first and looks at the tail then. */
enum {
    HK_TAIL_HELD = 1,  /* it is being purged */
    HK_TAIL_SEEN = 2,  /* it is marked: it was there at a look */
    HK_TAIL_CLEAN = 4, /* it has no memory, or what it has may be taken, or is refused */
    HK_TAIL_GONE = 8,  /* its memory was given back */
    HK_TAIL_FLAGS = 15
};
HK_INLINE size_t hk_tail_bytes(unsigned tail) {
    return tail &
           -hk_load_relaxed(&hk_os_page_bytes); /* which has been read where there is a run */
}

HK_INLINE bool hk_tail_is_held(const hk_slab_t *run) {
    return (hk_load_seq(&run->free) & HK_TAIL_HELD) != 0;
}

/* Bytes that purges gave back and that were handed out again since. Any thread. */
extern _Atomic uint64_t hk_pool_retaken;

/* Bytes of all slabs of a class; of class 0, of all large runs. */
size_t hk_pool_carved(unsigned cls);

/* ---- shadows: 16 bits for each block, kept apart from it, for whoever guards the heap ----
 *
 * Where there are shadows a slab reads as zero when it is carved. */

/* From now on every slab has a shadow; those there are get one. Each block of a slab is `early` in it, and 0 in slabs
 * carved after hk_pool_all_guarded(), which waits for nobody: other threads, where there are any, may hand out what nobody marks.
 * `wiped`: of a slab without early blocks all that is free reads as zero. False: out of memory. Called once, while the process
 * starts. */
bool hk_pool_add_shadows(uint16_t early, bool wiped);
void hk_pool_all_guarded(void);

/* What a superslab's descriptor begins with: all that finding a block's bits takes. Of each slice, set before
 * its blocks are seen, and only where somebody guards the heap: where the bits of its slab are, and where it starts. */
typedef struct {
    _Atomic uint16_t *shadow;
    const char *base;
} hk_shadows_t;
typedef struct {
    hk_shadows_t slices[HK_SLICES];
} hk_superslab_head_t;

/* Of the slice that p lies in, an address in a slab. */
HK_INLINE const hk_shadows_t *hk_shadows_at(const void *p) {
    /* the flat map takes addresses modulo its own; what is no multiple of the class's size then ends in hk_shadow_in() */
    const size_t root = ((uintptr_t)p >> HK_LEAF_SHIFT) % HK_MAP_LEAVES;
    const hk_leaf_t *leaf = hk_load_acquire(&hk_map_root[root]);
    const hk_superslab_head_t *ss = (const void *)hk_load_acquire(&leaf->owner[hk_map_unit(p)]);
    return &ss->slices[((uintptr_t)p >> HK_SLICE_SHIFT) & (HK_SLICES - 1)];
}

/* The bits of the block that starts at p, an address in a slab of blocks of `size` bytes, NULL where none starts there; behind the
 * slab's last block there are some as well, that are 0. */
HK_INLINE _Atomic uint16_t *hk_shadow_by(const void *p, uint64_t reciprocal, size_t size) {
    const hk_shadows_t *slice = hk_shadows_at(p);
    const size_t offset = (size_t)((const char *)p - slice->base);
    const size_t index = (offset * reciprocal) >> 40; /* hk_class_index() */
    if (HK_UNLIKELY(index * size != offset))
        return NULL;
    _Atomic uint16_t *shadow = slice->shadow + index;
    if (shadow == NULL)
        __builtin_unreachable(); /* there is no need to ask */
    return shadow;
}

/* The bits of the block of class cls that starts at p, an address in a slab of that class; NULL where none starts
 * there. `quick`, where the class is not 1: behind the slab's last block there are some as well, that are 0. */
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

/* A superslab to purge, and the slabs carved of it (no large runs). They may change as soon as this
 * is known. */
typedef struct {
    hk_superslab_t *superslab;
    char *base;
    uint32_t lazy;   /* free slices whose memory the system may take, or has */
    uint32_t wiped;  /* others, which slabs have left reading as zero, as they still should */
    bool huge_pages; /* it may have some */
    unsigned count;
    hk_slab_t *slabs[HK_SLICES];
} hk_pool_cursor_t;

/* Goes on to the next superslab that has memory, from NULL to the first, now and then to one without; false: there is none. */
bool hk_pool_next(hk_pool_cursor_t *cursor);

/* Which of what is free: what has memory; of that, what was free at the last look too; also what the system may take, and perhaps
 * has not yet. */
typedef enum { HK_CLAIM_DIRTY, HK_CLAIM_AGED, HK_CLAIM_LAZY_TOO } hk_claim_t;

/* Takes free slices out of reach while they are purged; returns them as a mask. Their address ranges, at
 * most 16, are written to `ranges`. */
uint32_t hk_pool_claim(hk_superslab_t *superslab, hk_claim_t which, hk_os_range_t *ranges,
                       unsigned *count);

/* Puts them back. `purged`: those that have no memory now or, with `lazily`, that the system may
 * take. Returns the bytes that these had; sets *seen where other free slices were seen that will be old enough at the next look. */
size_t hk_pool_unclaim(hk_superslab_t *superslab, uint32_t claimed, uint32_t purged, bool lazily,
                       bool *seen);

/* Holds tails of large blocks while they are purged, `aged`: those that are marked; returns the first slices of their runs as a mask. Their address ranges, at most
 * 32, in the same order, are written to `ranges`. */
uint32_t hk_pool_claim_tails(hk_superslab_t *superslab, bool aged, hk_os_range_t *ranges,
                             unsigned *count);

/* Lets go of them. A bit of `purged` for each range says which have no memory now or, with `lazily`, that the system may take it. */
void hk_pool_unclaim_tails(hk_superslab_t *superslab, uint32_t claimed, uint32_t purged,
                           bool lazily);

/* What is free and claimed, and was to read as zero, but does not: a write after free. The first such byte, and of a slab the block
 * that it is in and the bytes of that. NULL: there is none, or nobody guards the heap. What was written to is cleared. */
typedef struct {
    const char *at, *block;
    size_t bytes;
} hk_spoilt_t;
hk_spoilt_t hk_pool_look(hk_superslab_t *superslab, uint32_t claimed);
hk_spoilt_t hk_pool_look_at_pages(const hk_slab_t *slab, uint64_t claimed);

/* All of the superslab, where huge pages have not been ruled out for it yet; they are from now
 * on. */
bool hk_pool_rule_out_huge_pages(hk_superslab_t *superslab, hk_os_range_t *range);

/* Gives wholly free superslabs to the region cache, or back where most of them has gone, the one that is kept for reuse included. */
void hk_pool_release_empty(void);

/* Bytes of all superslabs, and the most that there have been. Any thread. */
size_t hk_pool_mapped(void);
size_t hk_pool_mapped_most(void);

/* What is free of some superslabs, in bytes. */
typedef struct {
    size_t dirty;  /* free and resident, at most: slices that have memory, and blocks of slabs */
    size_t likely; /* of that, on whole OS pages, if those are free that chance would have */
    size_t slices; /* of that, slices */
    size_t clean;  /* slices and OS pages that have no memory, or may lose it */
    size_t
        tails; /* of large blocks, those that are marked; not in dirty, though they may have memory */
    bool marks; /* given: all of them are to be marked, and old from the next time on */
    size_t of_class[HK_CLASS_COUNT]; /* of dirty, in slabs of each class */
} hk_pool_free_t;
/* Adds what is free of the next superslab, from NULL to the first; false: there is none. */
bool hk_pool_add_free(hk_superslab_t **at, hk_pool_free_t *sum);

/* Calls `visit` for every carved slab and large run, with the pool locked for one superslab at a
 * time. The fields that a heap's lock guards may be changing meanwhile. */
typedef void hk_slab_visitor_t(const hk_slab_t *slab, void *argument);
void hk_pool_visit(hk_slab_visitor_t *visit, void *argument);

/* Calls `visit` for every descriptor of a slab there is, and whether it is a carved slab's, while no other thread runs. */
void hk_pool_visit_descriptors(void (*visit)(hk_slab_t *slab, bool carved));
