#include "guard/quarantine.h"

#include "base/random.h"

static void *swap(hk_quarantine_t *q, unsigned cls, void *p) {
    const unsigned room = hk_quarantine_room(cls);
    if (room == 0)
        return p;
    if (q->held[cls] < room) {
        q->blocks[cls][q->held[cls]++] = p;
        return NULL;
    }
    void **place = &q->blocks[cls][hk_random_below(&q->stream, room)];
    void *out = *place;
    *place = p;
    return out;
}

void *hk_quarantine_put(hk_quarantine_t *q, unsigned cls, void *p) {
    if (HK_UNLIKELY(hk_load_relaxed(&q->busy)))
        return p;
    hk_store_relaxed(&q->busy, true);
    atomic_signal_fence(memory_order_seq_cst);
    void *out = swap(q, cls, p);
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&q->busy, false);
    return out;
}

void *hk_quarantine_take(hk_quarantine_t *q, unsigned cls) {
    return q->held[cls] != 0 ? q->blocks[cls][--q->held[cls]] : NULL;
}
