/* A shelf: a few blocks of one class, last in, first out. The layers UltraHot and C7 hot are rows
 * of shelves; they differ in their classes and in where they get blocks from. */
#ifndef HK_OBSERVE_SHELF_H
#define HK_OBSERVE_SHELF_H

#include "backend/heap.h"

enum { HK_SHELF_MOST = HK_HOSTILE ? 2 : 8 };

typedef struct {
    atomic_uint count; /* owner writes, any reads; <= HK_SHELF_MOST */
    void *blocks[HK_SHELF_MOST];
} hk_shelf_t;

HK_INLINE void *hk_shelf_take(hk_shelf_t *shelf) {
    unsigned n = hk_load_relaxed(&shelf->count);
    if (n == 0)
        return NULL;
    hk_store_relaxed(&shelf->count, n - 1);
    return shelf->blocks[n - 1];
}

HK_INLINE bool hk_shelf_give(hk_shelf_t *shelf, void *p) {
    unsigned n = hk_load_relaxed(&shelf->count);
    if (n == HK_SHELF_MOST)
        return false;
    shelf->blocks[n] = p;
    hk_store_relaxed(&shelf->count, n + 1);
    return true;
}

/* Gives the oldest blocks, all but `keep`, to the heap; returns how many. */
unsigned hk_shelf_drain(hk_shelf_t *shelf, hk_heap_t *heap, unsigned cls, unsigned keep);

#endif
