#include "observe/layers.h"

#define EVERYWHERE                                                                                 \
    (HK_LAYER_BIT(HK_LAYER_HEAPV2) | HK_LAYER_BIT(HK_LAYER_SLL) | HK_LAYER_BIT(HK_LAYER_UNIFIED))
const uint8_t hk_layers_of_band[9] = {
    [0 ... 1] = EVERYWHERE, [2 ... 5] = EVERYWHERE | HK_LAYER_BIT(HK_LAYER_ULTRAHOT),
    [6] = EVERYWHERE,       [7] = EVERYWHERE | HK_LAYER_BIT(HK_LAYER_C7_HOT),
    [8] = EVERYWHERE,
};

/* Layers of one band only have room for its fixed classes. */
unsigned hk_layers_of(unsigned cls) {
    return cls < HK_CLASS_FIXED ? hk_layers_of_band[hk_classes[cls].band] : EVERYWHERE;
}

/* ---- the unified cache ---- */

static void add_held(hk_unified_t *unified, unsigned cls, int n) {
    int held = hk_load_relaxed(&unified->held[cls]) + n;
    hk_store_relaxed(&unified->held[cls], (uint8_t)held);
    unified->bytes += (size_t)(ptrdiff_t)n * hk_classes[cls].size;
}

/* Takes n blocks out, from the i-th on. */
static void close_gap(hk_unified_t *unified, unsigned i, unsigned n) {
    const unsigned behind = (unified->count -= n) - i;
    memmove(&unified->blocks[i], &unified->blocks[i + n], behind * sizeof(void *));
    memmove(&unified->cls[i], &unified->cls[i + n], behind);
}

void *hk_unified_take(hk_unified_t *unified, unsigned cls) {
    if (hk_load_relaxed(&unified->held[cls]) == 0)
        return NULL;
    unsigned i = unified->count - 1;
    while (unified->cls[i] != cls)
        i--;
    void *p = unified->blocks[i];
    close_gap(unified, i, 1);
    add_held(unified, cls, -1);
    return p;
}

bool hk_unified_give(hk_unified_t *unified, unsigned cls, void *p) {
    if (unified->count == HK_UNIFIED_MOST ||
        unified->bytes + hk_classes[cls].size > HK_UNIFIED_BYTES)
        return false;
    unified->blocks[unified->count] = p;
    unified->cls[unified->count++] = (uint8_t)cls;
    add_held(unified, cls, 1);
    return true;
}

/* ---- what goes to the heap: all blocks of the class but `keep`, the oldest where order is known; how many ---- */

/* The oldest blocks, of any class, until no more than half of the bytes are left either. */
static unsigned drain_unified(hk_unified_t *unified, hk_heap_t *heap, unsigned keep) {
    unsigned n = 0;
    while (unified->count - n > keep || unified->bytes > HK_UNIFIED_BYTES / 2) {
        unsigned cls = unified->cls[n];
        hk_heap_give(heap, cls, &unified->blocks[n++], 1);
        add_held(unified, cls, -1);
    }
    close_gap(unified, 0, n);
    return n;
}

static unsigned drain_sll(hk_sll_t *sll, hk_heap_t *heap, unsigned cls, unsigned keep) {
    void *blocks[HK_SLL_BLOCKS];
    unsigned n = 0;
    while (hk_load_relaxed(&sll->count[cls]) > keep)
        blocks[n++] = hk_sll_take(sll, cls);
    if (n != 0)
        hk_heap_give(heap, cls, blocks, n);
    return n;
}

static unsigned drain_shelf(hk_shelf_t *shelf, hk_heap_t *heap, unsigned cls, unsigned keep) {
    const unsigned held = hk_load_relaxed(&shelf->count);
    if (held <= keep)
        return 0;
    hk_heap_give(heap, cls, shelf->blocks, held - keep);
    memmove(shelf->blocks, shelf->blocks + held - keep, keep * sizeof(void *));
    hk_store_relaxed(&shelf->count, keep);
    return held - keep;
}

static unsigned drain_layer(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap, unsigned cls,
                            unsigned keep) {
    return layer == HK_LAYER_SLL       ? drain_sll(&layers->sll, heap, cls, keep)
           : layer == HK_LAYER_UNIFIED ? drain_unified(&layers->unified, heap, keep)
                                       : drain_shelf(hk_layer_shelf(layers, cls), heap, cls, keep);
}

/* ---- all of them ---- */

static unsigned most_of(hk_layer_t layer, unsigned cls) {
    return layer == HK_LAYER_SLL       ? HK_SLL_MOST(hk_classes[cls].size)
           : layer == HK_LAYER_UNIFIED ? HK_UNIFIED_MOST
                                       : HK_SHELF_MOST;
}

unsigned hk_layer_batch(hk_layer_t layer, unsigned cls) {
    if (layer == HK_LAYER_UNIFIED)
        return HK_CLAMP(HK_UNIFIED_BYTES / 8 / hk_classes[cls].size, 1, (HK_UNIFIED_MOST + 7) / 8);
    return layer == HK_LAYER_SLL ? (most_of(layer, cls) + 1) / 2 : most_of(layer, cls);
}

unsigned hk_layer_make_room(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap, unsigned cls) {
    return drain_layer(layers, layer, heap, cls, most_of(layer, cls) / 2);
}

void hk_layer_drain(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap) {
    for (unsigned cls = 1; cls < hk_class_end(); cls++)
        if ((hk_layers_of(cls) & HK_LAYER_BIT(layer)) != 0)
            drain_layer(layers, layer, heap, cls, 0);
}

unsigned hk_layers_count(hk_layers_t *layers, unsigned cls) {
    unsigned n = hk_load_relaxed(&layers->sll.count[cls]);
    n += hk_load_relaxed(&layers->unified.held[cls]);
    if (cls >= HK_ULTRAHOT_FIRST && cls <= HK_C7_LAST)
        n += hk_load_relaxed(&hk_layer_shelf(layers, cls)->count);
    return n;
}
