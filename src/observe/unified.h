/* The unified cache: one small stock of blocks of all classes, searched from the newest on. */
#ifndef HK_OBSERVE_UNIFIED_H
#define HK_OBSERVE_UNIFIED_H

#include "backend/heap.h"

enum { HK_UNIFIED_MOST = HK_HOSTILE ? 4 : 64, HK_UNIFIED_BYTES = 256 * 1024 };

/* Equation: the sum of held is count, bytes is the sum of held * size,
 * bytes <= HK_UNIFIED_BYTES. */
typedef struct {
    void *blocks[HK_UNIFIED_MOST];        /* owner; oldest first */
    uint8_t cls[HK_UNIFIED_MOST];         /* owner: the class of each */
    unsigned count;                       /* owner */
    size_t bytes;                         /* owner */
    _Atomic uint8_t held[HK_CLASS_COUNT]; /* owner writes, any reads: blocks of each class */
} hk_unified_t;

void *hk_unified_take(hk_unified_t *unified, unsigned cls);
bool hk_unified_give(hk_unified_t *unified, unsigned cls, void *p);

/* Gives the oldest blocks to the heap, whatever their class, until at most `keep` blocks and half
 * of the bytes are left; returns how many. */
unsigned hk_unified_drain(hk_unified_t *unified, hk_heap_t *heap, unsigned keep);

#endif
