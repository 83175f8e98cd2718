/* The research layers of one thread behind one interface: take, give, drain, count. What a layer
 * may hold is bounded; a full layer passes the block on. The magazines, the layer HEAPV2, are the
 * front's own and not here. */
#pragma once

#include "backend/heap.h"
#include "observe/plan.h"

/* ---- UltraHot and C7 hot: shelves ---- */

/* A few blocks of one class, last in, first out. Both layers are rows of shelves; they differ in
 * their classes and in where their blocks come from. */
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

/* ---- SLL: a list for each class ---- */

/* Linked through the free blocks themselves, the only place where the allocator keeps links in
 * blocks; a program that writes to freed memory can destroy them. The layer is for research, to be
 * compared with. A list has at most 64 blocks, and at most 32 KiB of them. */
enum { HK_SLL_BLOCKS = HK_HOSTILE ? 2 : 64 };
#define HK_SLL_MOST(size) HK_CLAMP(32768u / (size), HK_HOSTILE ? 2u : 1u, (unsigned)HK_SLL_BLOCKS)
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

/* ---- the unified cache: one small stock of blocks of all classes, searched from the newest on ---- */

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

/* ---- all of them ---- */

/* The classes of bands C2 ... C5, and those of C7. */
enum { HK_ULTRAHOT_FIRST = 3, HK_ULTRAHOT_LAST = 13, HK_C7_FIRST = 18, HK_C7_LAST = 21 };

/* All owner's, except as the layers say. At most it holds 8 blocks of each class of its bands in
 * either row of shelves (11 KiB and 26 KiB), 32 KiB of each class in the lists (907 KiB, and 128 of
 * learned ones), and 256 KiB in the unified cache. */
typedef struct {
    hk_shelf_t
        shelves[HK_C7_LAST - HK_ULTRAHOT_FIRST + 1]; /* of UltraHot, and behind them of C7 hot */
    hk_sll_t sll;
    hk_unified_t unified;
} hk_layers_t;

/* The layers that serve each band, as bits of a plan. Index 8 is everything above 1 KiB. */
extern const uint8_t hk_layers_of_band[9];

/* The layers that serve a class. */
unsigned hk_layers_of(unsigned cls);

/* No class belongs to both rows. */
HK_INLINE hk_shelf_t *hk_layer_shelf(hk_layers_t *layers, unsigned cls) {
    return &layers->shelves[cls - HK_ULTRAHOT_FIRST];
}

/* A block of class cls, which the layer serves, or NULL. */
HK_INLINE void *hk_layer_take(hk_layers_t *layers, hk_layer_t layer, unsigned cls) {
    return layer == HK_LAYER_SLL       ? hk_sll_take(&layers->sll, cls)
           : layer == HK_LAYER_UNIFIED ? hk_unified_take(&layers->unified, cls)
                                       : hk_shelf_take(hk_layer_shelf(layers, cls));
}

/* Keeps p; false: no room. */
HK_INLINE bool hk_layer_give(hk_layers_t *layers, hk_layer_t layer, unsigned cls, void *p) {
    return layer == HK_LAYER_SLL       ? hk_sll_give(&layers->sll, cls, p)
           : layer == HK_LAYER_UNIFIED ? hk_unified_give(&layers->unified, cls, p)
                                       : hk_shelf_give(hk_layer_shelf(layers, cls), p);
}

/* How many blocks to fill the layer with where it has none of class cls: at most HK_LAYER_BATCH. */
enum { HK_LAYER_BATCH = 32 };
unsigned hk_layer_batch(hk_layer_t layer, unsigned cls);

/* Makes room for a block of class cls: about half of what is in its way goes to the heap. Returns
 * how many blocks. */
unsigned hk_layer_make_room(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap, unsigned cls);

/* Gives all that the layer holds to the heap. */
void hk_layer_drain(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap);

/* The blocks of class cls in all of the layers. Any thread. */
unsigned hk_layers_count(hk_layers_t *layers, unsigned cls);
