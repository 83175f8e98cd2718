/* malloc's and free's fast path as inline functions, for programs that are linked to libhakmem.a
 * and allocate so much that the call itself counts. For a constant size the compiler also leaves
 * out the comparison and the arithmetic. All but the fast path is hak_malloc()'s and hak_free()'s,
 * so profiles, limits, checks and statistics work as ever. Blocks may be freed by either family.
 *
 * It needs the archive: the shared library does not export the variables below, so linking fails.
 * Linking also fails with an archive of another layout, whose number is part of the names. */
#ifndef HAKMEM_INLINE_H
#define HAKMEM_INLINE_H

#include <hakmem/hakmem.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HAK_INLINE_MAX = 32768,    /* bytes; larger blocks are not cached */
    HAK_INLINE_KINDS = 53,     /* what a slice may hold: blocks of one size class, or none */
    HAK_INLINE_SLICE_BITS = 16 /* of an address: its offset in its slice */
};

/* A thread's cache; only the allocator and the two functions below may use it. A bin is a stack of
 * free blocks above a NULL. */
struct hak_inline_cache {
    void **top[HAK_INLINE_KINDS];   /* the topmost block, or the NULL */
    unsigned char *map;             /* the kind of each slice */
    uintptr_t mask;                 /* of the map's index; may become 0 at any time */
    uintptr_t mask_derived;         /* the same for some forms of operator delete */
    void **limit[HAK_INLINE_KINDS]; /* the top of a full bin */
};

extern __attribute__((visibility("hidden"))) __thread struct hak_inline_cache *hak_inline_cache_2;
extern __attribute__((
    visibility("hidden"))) unsigned char hak_inline_class_of_size_2[HAK_INLINE_MAX / 8 + 1];

/* hak_malloc(n). */
static inline __attribute__((always_inline)) void *hak_malloc_inline(size_t n) {
    if (n <= HAK_INLINE_MAX) {
        struct hak_inline_cache *cache = __atomic_load_n(&hak_inline_cache_2, __ATOMIC_RELAXED);
        size_t kind = __atomic_load_n(&hak_inline_class_of_size_2[(n + 7) / 8], __ATOMIC_RELAXED);
        void **top = __atomic_load_n(&cache->top[kind], __ATOMIC_RELAXED);
        void *block = *top;
        if (__builtin_expect(block != NULL, 1)) {
            __atomic_store_n(&cache->top[kind], top - 1, __ATOMIC_RELAXED);
            return block;
        }
    }
    return hak_malloc(n);
}

/* hak_free(p). */
static inline __attribute__((always_inline)) void hak_free_inline(void *p) {
    struct hak_inline_cache *cache = __atomic_load_n(&hak_inline_cache_2, __ATOMIC_RELAXED);
    uintptr_t slice =
        ((uintptr_t)p >> HAK_INLINE_SLICE_BITS) & __atomic_load_n(&cache->mask, __ATOMIC_RELAXED);
    size_t kind = __atomic_load_n(&cache->map[slice], __ATOMIC_RELAXED);
    void **top = __atomic_load_n(&cache->top[kind], __ATOMIC_RELAXED);
    if (__builtin_expect(top == cache->limit[kind], 0)) {
        hak_free(p);
        return;
    }
    top[1] = p;
    __atomic_store_n(&cache->top[kind], top + 1, __ATOMIC_RELAXED);
}

#ifdef __cplusplus
}
#endif

#endif
