#include "observe/shelf.h"

#include <string.h>

unsigned hk_shelf_drain(hk_shelf_t *shelf, hk_heap_t *heap, unsigned cls, unsigned keep) {
    unsigned held = hk_load_relaxed(&shelf->count);
    if (held <= keep)
        return 0;
    hk_heap_give(heap, cls, shelf->blocks, held - keep);
    memmove(shelf->blocks, shelf->blocks + held - keep, keep * sizeof(void *));
    hk_store_relaxed(&shelf->count, keep);
    return held - keep;
}
