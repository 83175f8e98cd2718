/* The page map: what lies at an address. One byte for each slice (64 KiB) says the kind; one
 * pointer for each unit (2 MiB) names the descriptor of the superslab or huge block that starts
 * there.
 *
 * The bytes exist twice. The flat map (one load, used by free's hit path) is a reserved read-only
 * array made writable one OS page at a time. It may be refused, or given up where address space
 * turns out to be limited (ulimit -v); then the mask is 0 and every free takes the slow path. The
 * two-level map is always there and answers everything else. */
#pragma once

#include "backend/sizeclass.h"
#include "base/base.h"

/* Kinds above the size classes are "always full": free leaves the hit path on them. */
enum {
    HK_KIND_FOREIGN = 0,            /* not ours */
    HK_KIND_LARGE = HK_CLASS_COUNT, /* first slice of a large run */
    HK_KIND_HUGE,                   /* first slice of a huge block */
    HK_KIND_INTERIOR,               /* a later slice of either */
    HK_KIND_FREE,                   /* ours, and nothing is live in it */
    HK_KIND_EMERGENCY,              /* see front/emergency.h */
    HK_KIND_FENCED,                 /* see guard/fence.h */
    HK_KIND_PACKED,                 /* a unit of blocks that share slices, see backend/pack.h */
    HK_KIND_COUNT
};

_Static_assert(HK_KIND_COUNT <= UINT8_MAX, "a kind is a byte");

HK_INLINE bool hk_kind_is_class(unsigned kind) { return kind - 1 < HK_CLASS_COUNT - 1; }

/* The two-level map: a leaf covers 4 GiB of addresses; the root 47 bits (48 where user space is
 * larger). */
#define HK_LEAF_SHIFT 32
#if defined(__x86_64__)
#define HK_ADDRESS_BITS 47
#else
#define HK_ADDRESS_BITS 48
#endif
#define HK_MAP_LEAVES ((size_t)1 << (HK_ADDRESS_BITS - HK_LEAF_SHIFT))
#define HK_LEAF_SLICES ((size_t)1 << (HK_LEAF_SHIFT - HK_SLICE_SHIFT))
#define HK_LEAF_UNITS ((size_t)1 << (HK_LEAF_SHIFT - HK_UNIT_SHIFT))

enum { HK_LEAF_HEADER_WORDS = 18 }; /* guard/header.c asserts that they suffice */
typedef struct hk_leaf {
    _Atomic(void *) owner[HK_LEAF_UNITS]; /* atomic: any thread */
    _Atomic uint8_t kind[HK_LEAF_SLICES]; /* atomic: any thread */
    /* atomic: bit i: the i-th OS page of this leaf's part of the flat map is writable */
    atomic_uint committed;
    atomic_uint written;       /* atomic: bit i: a kind may be set among the slices of that page */
    uintptr_t first;           /* const: the first address */
    struct hk_leaf *made_next; /* const once set */
    /* atomic: any thread; guard/header.c's table for these addresses, NULL until it exists, and a
     * bit for each of its pages that is writable */
    _Atomic(char *) headers;
    _Atomic uint64_t headers_open[HK_LEAF_HEADER_WORDS];
} hk_leaf_t;

extern _Atomic(hk_leaf_t *) hk_map_root[HK_MAP_LEAVES];

/* NULL: no leaf covers p. */
HK_INLINE hk_leaf_t *hk_map_leaf(const void *p) {
    const uintptr_t a = (uintptr_t)p;
    return HK_UNLIKELY(a >> HK_ADDRESS_BITS != 0)
               ? NULL
               : hk_load_acquire(&hk_map_root[a >> HK_LEAF_SHIFT]);
}

HK_INLINE size_t hk_map_slice(const void *p) {
    return ((uintptr_t)p >> HK_SLICE_SHIFT) & (HK_LEAF_SLICES - 1);
}

HK_INLINE size_t hk_map_unit(const void *p) {
    return ((uintptr_t)p >> HK_UNIT_SHIFT) & (HK_LEAF_UNITS - 1);
}

/* The flat map as the hit path sees it. */
typedef struct {
    _Atomic uint8_t *bytes; /* written once; indexed by (address >> HK_SLICE_SHIFT) & mask */
    _Atomic uintptr_t mask; /* atomic: 0 until the map exists, and after it was given up */
} hk_flat_t;

extern HK_HIDDEN hk_flat_t hk_flat;

/* Bytes of addresses that the flat map takes, and that must be left beside it where addresses are
 * limited. With less room the system might refuse the process's own mappings and thread stacks, and
 * the allocator would not notice. */
#define HK_MAP_BYTES ((size_t)1 << (HK_ADDRESS_BITS - HK_SLICE_SHIFT))
#define HK_MAP_ROOM (4 * HK_MAP_BYTES)

/* Whether the process has a limit on its addresses, or had one. */
extern atomic_bool hk_map_is_limited; /* atomic: any thread */

/* Sets up the flat map if there is room for it. Called once, before any other thread exists or
 * under the init lock. */
void hk_map_init(void);

/* Whether the system refused to make a part of the flat map writable, and refuses every such
 * change, as a sandbox may: not for want of memory or mappings. */
extern atomic_bool hk_map_refused; /* atomic: any thread; refused, for a cause not yet known */
bool hk_map_refuses_all(void);
HK_INLINE bool hk_map_is_refused(void) {
    return HK_UNLIKELY(hk_load_relaxed(&hk_map_refused)) && hk_map_refuses_all();
}

/* Gives up the flat map: its mask is 0 from then on, and its address space goes back, except the
 * parts for addresses near ours, near the program break and below 4 GiB. These stay for a free that
 * has read the old mask and continues only now. The caller has made sure that no thread's cache
 * holds the old mask. */
void hk_map_give_up_flat(void);

HK_INLINE bool hk_map_has_flat(void) { return hk_load_relaxed(&hk_flat.mask) != 0; }

/* Prepares the map for [p, p+bytes); afterwards the setters cannot fail. False: out of memory. */
bool hk_map_commit(const void *p, size_t bytes);

/* The same without a flat map; cannot fail. Takes what it needs from *spare on, which has
 * hk_map_spare_for(bytes) bytes of zeroed memory, and advances *spare. What it takes is the map's
 * for ever. */
size_t hk_map_spare_for(size_t bytes);
void hk_map_commit_from(const void *p, size_t bytes, char **spare);

/* hk_map_commit() for a range just mapped at p (NULL: refused). Returns p; NULL, with the range
 * unmapped, if that fails. */
void *hk_map_committed(void *p, size_t bytes);

/* Sets the kind of `slices` slices from p on. The caller owns that range. */
void hk_map_set(const void *p, size_t slices, unsigned kind);

/* Sets the kind of the slice at p, one of ours, to `to` if it is `from`; false: it is not. Of
 * several threads in a race one succeeds. */
bool hk_map_change(const void *p, unsigned from, unsigned to);

/* Whether a large block starts at p, in a superslab. Of this and a hk_map_change() the later one
 * sees all that the other's thread wrote before it. */
bool hk_map_has_large(const void *p);

/* The kind at any address, ours or not. */
unsigned hk_map_kind(const void *p);

/* The descriptor of the unit that holds p; NULL: none is set. It is set before any kind byte in the
 * unit becomes visible. The setter returns the previous one. */
void *hk_map_set_owner(const void *p, void *descriptor);
void *hk_map_owner(const void *p);

/* If there is a flat map, its bytes for these slices equal those of the two-level map. The caller
 * owns the slices. */
void hk_map_is_valid(const void *p, size_t slices);

/* Calls `visit` for each run of slices that are ours, cut at unit boundaries; kinds[i] is the kind
 * of the i-th. No lock: the map may change meanwhile. */
typedef void hk_map_visitor_t(const char *start, size_t slices, const _Atomic uint8_t *kinds,
                              void *argument);
void hk_map_visit(hk_map_visitor_t *visit, void *argument);

/* Calls `visit` for each range of the map's own memory. */
void hk_map_visit_own(void (*visit)(const void *start, size_t bytes, void *argument),
                      void *argument);
