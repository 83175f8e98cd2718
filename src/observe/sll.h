/* The thread-local singly linked lists: one for each class, linked through the free blocks
 * themselves. The only place where the allocator writes into a block: a research layer, there to be
 * compared with, whose links a program that writes to freed memory can destroy. */
#ifndef HK_OBSERVE_SLL_H
#define HK_OBSERVE_SLL_H

#include <string.h>

#include "backend/heap.h"

/* The most blocks of a list: 64, at most 32 KiB of them. */
#define HK_SLL_MOST(size) (HK_HOSTILE ? 2u : HK_CLAMP(32768u / (size), 1u, 64u))

typedef struct {
    void *head[HK_CLASS_COUNT];        /* owner */
    atomic_uint count[HK_CLASS_COUNT]; /* owner writes, any reads: blocks on the list */
} hk_sll_t;

HK_INLINE void *hk_sll_take(hk_sll_t *sll, unsigned cls) {
    void *p = sll->head[cls];
    if (p == NULL)
        return NULL;
    memcpy(&sll->head[cls], p, sizeof(void *));
    hk_store_relaxed(&sll->count[cls], hk_load_relaxed(&sll->count[cls]) - 1);
    return p;
}

HK_INLINE bool hk_sll_give(hk_sll_t *sll, unsigned cls, void *p) {
    unsigned n = hk_load_relaxed(&sll->count[cls]);
    if (n >= HK_SLL_MOST(hk_classes[cls].size))
        return false;
    memcpy(p, &sll->head[cls], sizeof(void *));
    sll->head[cls] = p;
    hk_store_relaxed(&sll->count[cls], n + 1);
    return true;
}

/* Gives all blocks but `keep` to the heap; returns how many. */
unsigned hk_sll_drain(hk_sll_t *sll, hk_heap_t *heap, unsigned cls, unsigned keep);

#endif
