/* The thread cache: what the hit path touches, and the hit path itself.
 *
 *   malloc(n) ── class by table ── *top != NULL ──► pop                       (hit)
 *                                  *top == NULL ──► hk_malloc_slow            (the boundary)
 *   free(p) ──── class by map ──── top != limit ──► push                      (hit)
 *                                  top == limit ──► hk_free_slow              (the boundary)
 *
 * Each rare condition is folded into those two branches: a thread without a cache has bins that are
 * both empty and full and a map mask of 0; pointers that are no small blocks of ours have a kind
 * whose bin is always full. No option is read, nothing is counted, nothing is locked. */
#pragma once

#include "backend/pagemap.h"
#include "backend/sizeclass.h"
#include "base/base.h"
#include "front/operators.h"

typedef struct hk_thread hk_thread_t;
typedef struct hk_observed hk_observed_t;     /* front/observed.h */
typedef struct hk_quarantine hk_quarantine_t; /* guard/quarantine.h */

/* Places for watchers of operations (front/watched.h). */
typedef enum { HK_WATCH_PROFILE, HK_WATCH_RECORD, HK_WATCH_PLACES } hk_watch_place_t;

/* A magazine ("bin") of each kind: a stack of free blocks in slots outside of them. Slot 0 holds
 * NULL, so that an empty bin needs no comparison. Invariant: slots <= top <= limit;
 * *top == NULL <=> empty. Tops and limits are apart because malloc needs no limit, and because an
 * array of pointers is indexed for free. */
typedef struct {
    _Atomic(void **) top[HK_KIND_COUNT]; /* owner writes, any reads: the last block, or slot 0 */
    _Atomic uint8_t *map;                /* const: the flat page map */
    _Atomic uintptr_t mask; /* atomic: 0 once the flat map was given up; always, for a trap */
    _Atomic uintptr_t mask_derived;  /* atomic: the same; 0 also where derived forms of operator
                                       delete have no hits (front/operators.h) */
    void **limit[HK_KIND_COUNT];     /* owner: where top is when full; always, for kinds that
                                            are no class */
    hk_thread_t *thread;             /* const: the thread that has this cache; NULL: none */
    void *watchers[HK_WATCH_PLACES]; /* owner: what each keeps for the thread; NULL in a trap */
    /* atomic; in a trap, while operations are counted and nothing else (front/alone.h): where; else
     * NULL */
    _Atomic(hk_observed_t *) counted;
    /* atomic; in a trap, while operations are guarded and nothing else: the thread's quarantine;
     * else NULL */
    _Atomic(hk_quarantine_t *) guarded;
} hk_tcache_t;

/* The calling thread's cache: the 8 bytes of static TLS that hakmem uses. Never NULL.
 * (hakmem/inline.h links it by this name.) */
extern _Thread_local _Atomic(hk_tcache_t *) hk_tc __asm__("hak_inline_cache_2");

/* Keeps the compiler from computing the address of an atomic array element once for all accesses,
 * by an instruction that indexed addressing does not need. */
#define HK_INDEX_AGAIN(index) __asm__("" : "+r"(index))

/* index & mask, the mask read from memory once. Spelt out where it is one instruction, which
 * compilers do not make of an atomic load. */
HK_INLINE uintptr_t hk_masked(uintptr_t index, const _Atomic uintptr_t *mask) {
#if defined(__x86_64__)
    __asm__("and %1, %0" : "+r"(index) : "m"(*mask) : "cc");
    return index;
#else
    return index & hk_load_relaxed(mask);
#endif
}

/* n < *end, in the same way. */
HK_INLINE bool hk_is_below(size_t n, const atomic_size_t *end) {
#if defined(__x86_64__)
    bool below;
    __asm__("cmp %2, %1" : "=@ccb"(below) : "r"(n), "m"(*end));
    return below;
#else
    return n < hk_load_relaxed(end);
#endif
}

/* The kind of what lies at p by the cache's map, under one of its masks; 0 also where the cache has
 * no map. */
HK_INLINE size_t hk_kind_under(const _Atomic uintptr_t *mask, const hk_tcache_t *tc,
                               const void *p) {
    return hk_load_relaxed(&tc->map[hk_masked((uintptr_t)p >> HK_SLICE_SHIFT, mask)]);
}

HK_INLINE size_t hk_hit_kind(const hk_tcache_t *tc, const void *p) {
    return hk_kind_under(&tc->mask, tc, p);
}

/* The same for any address whatever, by such a map or the flat one; 0 also beyond it. */
HK_INLINE unsigned hk_kind_within(const _Atomic uintptr_t *mask, const _Atomic uint8_t *map,
                                  const void *p) {
    const uintptr_t slice = (uintptr_t)p >> HK_SLICE_SHIFT;
    const bool within = HK_LIKELY(slice <= hk_load_relaxed(mask));
    return within ? hk_load_relaxed(&map[slice]) : HK_KIND_FOREIGN;
}

/* The block on top of the bin of class cls, or NULL: to the boundary. */
HK_INLINE void *hk_hit_pop_class(hk_tcache_t *tc, size_t cls) {
    void **top = hk_load_relaxed(&tc->top[cls]);
    void *p = *top;
    HK_INDEX_AGAIN(cls);
    if (HK_LIKELY(p != NULL))
        hk_store_relaxed(&tc->top[cls], top - 1);
    return p;
}

/* The same for n bytes, if they fit. After the miss, while the table of sizes is hidden: an
 * allocation that a heap profile or sampled guards count and pass over (front/watched.h). */
HK_INLINE void *hk_hit_pop_if(hk_tcache_t *tc, bool fit, size_t n) {
    if (HK_UNLIKELY(!fit))
        return NULL;
    void *p = hk_hit_pop_class(tc, hk_load_relaxed(&hk_class_of_size[(n + 7) >> 3]));
    void **left = &tc->watchers[HK_WATCH_PROFILE];
    if (p != NULL || HK_FAST || (intptr_t)n >= (intptr_t)*left)
        return p;
    /* compared and changed in memory: a signal handler may count down in between, and it be
     * negative */
    __asm__("" : "+m"(*left));
    p = hk_hit_pop_class(tc, hk_class_of_hidden(n));
    if (HK_LIKELY(p != NULL))
        *left = (char *)*left - n;
    return p;
}

HK_INLINE void *hk_hit_pop(hk_tcache_t *tc, size_t n) {
    return hk_hit_pop_if(tc, n <= HK_MID_MAX, n);
}

/* n rounded up to a multiple of `align`, a power of two, less one; SIZE_MAX for no bytes, or no
 * alignment. */
HK_INLINE size_t hk_last_of(size_t n, size_t align) { return (n - 1) | (align - 1); }

/* The same, aligned to a power of two: of the class that hk_size_for_alignment() asks for, found
 * without computing its size unless a learned class is in its place. */
HK_INLINE void *hk_hit_pop_aligned_if(bool fit, size_t last, size_t align) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    if (HK_UNLIKELY(!fit))
        return NULL;
    size_t cls = hk_load_relaxed(&hk_class_of_size[(last >> 3) + 1]);
    if (HK_UNLIKELY(cls >= HK_CLASS_FIXED)) {
        HK_INDEX_AGAIN(cls); /* else the alignment would be tested first, each time */
        cls = align > 16 ? hk_fixed_class_of(last + 1) : cls;
    }
    return hk_hit_pop_class(tc, cls);
}

/* NULL for no bytes, or no alignment. */
HK_INLINE void *hk_hit_pop_aligned(size_t n, size_t align) {
    const size_t last = hk_last_of(n, align);
    return hk_hit_pop_aligned_if(last < HK_MID_MAX, last, align);
}

/* Puts p, which is of that kind, on its bin; false: to the boundary. */
HK_INLINE bool hk_hit_push_kind(hk_tcache_t *tc, size_t kind, void *p) {
    void **top = hk_load_relaxed(&tc->top[kind]);
    if (HK_UNLIKELY(top == tc->limit[kind]))
        return false;
    top[1] = p;
    HK_INDEX_AGAIN(kind);
    hk_store_relaxed(&tc->top[kind], top + 1);
    return true;
}

HK_INLINE bool hk_hit_push(hk_tcache_t *tc, void *p) {
    return hk_hit_push_kind(tc, hk_hit_kind(tc, p), p);
}

/* The same for derived forms of operators new and delete, which may have no hits. */
HK_INLINE void *hk_hit_pop_derived(size_t n) {
    return hk_hit_pop_if(hk_load_relaxed(&hk_tc), hk_is_below(n, &hk_derived.end), n);
}

HK_INLINE void *hk_hit_pop_derived_aligned(size_t n, size_t align) {
    const size_t last = hk_last_of(n, align);
    return hk_hit_pop_aligned_if(hk_is_below(last, &hk_derived.most), last, align);
}

HK_INLINE bool hk_hit_push_derived(void *p) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    return hk_hit_push_kind(tc, hk_kind_under(&tc->mask_derived, tc, p), p);
}
