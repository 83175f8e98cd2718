/* The research layers of one thread behind one interface: take, give, drain, count. What a layer
 * may hold is bounded; when it is full it says so and the block goes on. The magazines, the layer
 * HEAPV2, are the front's own and not here. */
#ifndef HK_OBSERVE_LAYERS_H
#define HK_OBSERVE_LAYERS_H

#include "observe/plan.h"
#include "observe/shelf.h"
#include "observe/sll.h"
#include "observe/unified.h"

/* The classes of bands C2 ... C5, and those of C7. */
enum { HK_ULTRAHOT_FIRST = 3, HK_ULTRAHOT_LAST = 13, HK_C7_FIRST = 18, HK_C7_LAST = 21 };

/* All owner's, except as the layers say. The most it may hold in bytes: 8 blocks of each class of
 * its bands in either row of shelves (11 KiB and 26 KiB), 32 KiB of each class in the lists (907
 * KiB), 256 KiB in the unified cache. */
typedef struct {
    hk_shelf_t ultrahot[HK_ULTRAHOT_LAST - HK_ULTRAHOT_FIRST + 1];
    hk_shelf_t c7_hot[HK_C7_LAST - HK_C7_FIRST + 1];
    hk_sll_t sll;
    hk_unified_t unified;
} hk_layers_t;

/* The layers that serve each band, as bits of a plan. Index 8 is everything above 1 KiB. */
extern const uint8_t hk_layers_of_band[9];

/* The same for a class. */
unsigned hk_layers_of(unsigned cls);

HK_INLINE hk_shelf_t *hk_layer_shelf(hk_layers_t *layers, hk_layer_t layer, unsigned cls) {
    return layer == HK_LAYER_ULTRAHOT ? &layers->ultrahot[cls - HK_ULTRAHOT_FIRST]
                                      : &layers->c7_hot[cls - HK_C7_FIRST];
}

/* A block of class cls, which the layer serves, or NULL. */
HK_INLINE void *hk_layer_take(hk_layers_t *layers, hk_layer_t layer, unsigned cls) {
    switch (layer) {
    case HK_LAYER_SLL:
        return hk_sll_take(&layers->sll, cls);
    case HK_LAYER_UNIFIED:
        return hk_unified_take(&layers->unified, cls);
    default:
        return hk_shelf_take(hk_layer_shelf(layers, layer, cls));
    }
}

/* Keeps p; false: no room. */
HK_INLINE bool hk_layer_give(hk_layers_t *layers, hk_layer_t layer, unsigned cls, void *p) {
    switch (layer) {
    case HK_LAYER_SLL:
        return hk_sll_give(&layers->sll, cls, p);
    case HK_LAYER_UNIFIED:
        return hk_unified_give(&layers->unified, cls, p);
    default:
        return hk_shelf_give(hk_layer_shelf(layers, layer, cls), p);
    }
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

#endif
