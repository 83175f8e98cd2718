#include "observe/sll.h"

unsigned hk_sll_drain(hk_sll_t *sll, hk_heap_t *heap, unsigned cls, unsigned keep) {
    enum { BATCH = 64 };
    unsigned drained = 0;
    while (hk_load_relaxed(&sll->count[cls]) > keep) {
        void *blocks[BATCH];
        unsigned n = 0;
        while (n < BATCH && hk_load_relaxed(&sll->count[cls]) > keep)
            blocks[n++] = hk_sll_take(sll, cls);
        hk_heap_give(heap, cls, blocks, n);
        drained += n;
    }
    return drained;
}
