#include "observe/unified.h"

#include <string.h>

static void add_held(hk_unified_t *unified, unsigned cls, int n) {
    int held = hk_load_relaxed(&unified->held[cls]) + n;
    hk_store_relaxed(&unified->held[cls], (uint8_t)held);
    unified->bytes += (size_t)(ptrdiff_t)n * hk_classes[cls].size;
}

void *hk_unified_take(hk_unified_t *unified, unsigned cls) {
    if (hk_load_relaxed(&unified->held[cls]) == 0)
        return NULL;
    unsigned i = unified->count - 1;
    while (unified->cls[i] != cls)
        i--;
    void *p = unified->blocks[i];
    unsigned behind = --unified->count - i;
    memmove(&unified->blocks[i], &unified->blocks[i + 1], behind * sizeof(void *));
    memmove(&unified->cls[i], &unified->cls[i + 1], behind);
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

unsigned hk_unified_drain(hk_unified_t *unified, hk_heap_t *heap, unsigned keep) {
    unsigned n = 0;
    while (unified->count - n > keep || unified->bytes > HK_UNIFIED_BYTES / 2) {
        unsigned cls = unified->cls[n];
        hk_heap_give(heap, cls, &unified->blocks[n++], 1);
        add_held(unified, cls, -1);
    }
    unified->count -= n;
    memmove(unified->blocks, unified->blocks + n, unified->count * sizeof(void *));
    memmove(unified->cls, unified->cls + n, unified->count);
    return n;
}
