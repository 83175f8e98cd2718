#include "observe/layers.h"

#define EVERYWHERE                                                                                 \
    (HK_LAYER_BIT(HK_LAYER_HEAPV2) | HK_LAYER_BIT(HK_LAYER_SLL) | HK_LAYER_BIT(HK_LAYER_UNIFIED))
const uint8_t hk_layers_of_band[9] = {
    [0 ... 1] = EVERYWHERE, [2 ... 5] = EVERYWHERE | HK_LAYER_BIT(HK_LAYER_ULTRAHOT),
    [6] = EVERYWHERE,       [7] = EVERYWHERE | HK_LAYER_BIT(HK_LAYER_C7_HOT),
    [8] = EVERYWHERE,
};

/* Those of one band only have room for its fixed classes. */
unsigned hk_layers_of(unsigned cls) {
    return cls < HK_CLASS_FIXED ? hk_layers_of_band[hk_classes[cls].band] : EVERYWHERE;
}

static bool is_shelf(hk_layer_t layer) {
    return layer == HK_LAYER_ULTRAHOT || layer == HK_LAYER_C7_HOT;
}

unsigned hk_layer_batch(hk_layer_t layer, unsigned cls) {
    const unsigned size = hk_classes[cls].size;
    if (is_shelf(layer))
        return HK_SHELF_MOST;
    if (layer == HK_LAYER_SLL)
        return (HK_SLL_MOST(size) + 1) / 2;
    return HK_CLAMP(HK_UNIFIED_BYTES / 8 / size, 1, (HK_UNIFIED_MOST + 7) / 8);
}

unsigned hk_layer_make_room(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap, unsigned cls) {
    if (is_shelf(layer))
        return hk_shelf_drain(hk_layer_shelf(layers, layer, cls), heap, cls, HK_SHELF_MOST / 2);
    if (layer == HK_LAYER_SLL)
        return hk_sll_drain(&layers->sll, heap, cls, HK_SLL_MOST(hk_classes[cls].size) / 2);
    return hk_unified_drain(&layers->unified, heap, HK_UNIFIED_MOST / 2);
}

void hk_layer_drain(hk_layers_t *layers, hk_layer_t layer, hk_heap_t *heap) {
    if (layer == HK_LAYER_UNIFIED) {
        hk_unified_drain(&layers->unified, heap, 0);
        return;
    }
    for (unsigned cls = 1; cls < hk_class_end(); cls++) {
        if ((hk_layers_of(cls) & HK_LAYER_BIT(layer)) == 0)
            continue;
        if (is_shelf(layer))
            hk_shelf_drain(hk_layer_shelf(layers, layer, cls), heap, cls, 0);
        else
            hk_sll_drain(&layers->sll, heap, cls, 0);
    }
}

unsigned hk_layers_count(hk_layers_t *layers, unsigned cls) {
    unsigned n = hk_load_relaxed(&layers->sll.count[cls]);
    n += hk_load_relaxed(&layers->unified.held[cls]);
    if (cls >= HK_ULTRAHOT_FIRST && cls <= HK_ULTRAHOT_LAST)
        n += hk_load_relaxed(&hk_layer_shelf(layers, HK_LAYER_ULTRAHOT, cls)->count);
    if (cls >= HK_C7_FIRST && cls <= HK_C7_LAST)
        n += hk_load_relaxed(&hk_layer_shelf(layers, HK_LAYER_C7_HOT, cls)->count);
    return n;
}
