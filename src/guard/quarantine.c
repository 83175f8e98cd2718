#include "guard/quarantine.h"

static void throw_dice(hk_quarantine_t *q) {
    enum { BITS = 30 }; /* twice, and ten times six */
    const uint64_t number = hk_random_below(&q->stream, 1u << BITS);
    q->dice = (uint64_t)1 << 2 * BITS | number << BITS | hk_random_below(&q->stream, 1u << BITS);
}

HK_NOINLINE void *hk_quarantine_put_slow(hk_quarantine_t *q, unsigned cls, void *p) {
    const unsigned room = hk_quarantine_room(cls);
    if (room == 0)
        return p;
    if (q->held[cls] < room) {
        q->blocks[cls][q->held[cls]++] = p;
        return NULL;
    }
    q->last[cls] = (uint8_t)(room - 1);
    if (room != 1) {
        throw_dice(q);
        return hk_quarantine_exchange(q, cls, p);
    }
    void *out = q->blocks[cls][0];
    q->blocks[cls][0] = p;
    return out;
}

void *hk_quarantine_take(hk_quarantine_t *q, unsigned cls) {
    q->last[cls] = 0;
    return q->held[cls] != 0 ? q->blocks[cls][--q->held[cls]] : NULL;
}
