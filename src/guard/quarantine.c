#include "guard/quarantine.h"

/* Blocks of so many bytes, as hk_class_index() divides. */
static size_t blocks_of(size_t bytes, unsigned cls) {
    return bytes * hk_classes[cls].reciprocal >> 40;
}

unsigned hk_quarantine_room(unsigned cls) {
    enum { FEW = 4 }; /* of the longest blocks as well: one would come back with the second free */
    const size_t blocks = blocks_of(hk_guard->quarantine_bytes, cls);
    const unsigned most = (unsigned)HK_CLAMP(blocks, FEW, HK_QUARANTINE_MOST);
    return 1u << (31 - __builtin_clz(most));
}

unsigned hk_quarantine_out(unsigned cls) {
    enum { FEW = 8 }; /* as many come from the magazine at a time */
    return (unsigned)HK_CLAMP(blocks_of(2 * hk_guard->quarantine_bytes, cls), FEW,
                              HK_QUARANTINE_OUT);
}

unsigned hk_quarantine_count(hk_quarantine_t *q, unsigned cls) {
    const hk_waiting_t *out = q->blocks[cls].out, *top = hk_load_relaxed(&q->top[cls]);
    const unsigned below = top != out ? HK_QUARANTINE_OUT - hk_quarantine_out(cls) : 0;
    return (unsigned)(top - out) - below + hk_load_relaxed(&q->wait[cls]);
}

unsigned hk_quarantine_list(const hk_quarantine_t *q, unsigned cls,
                            void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT]) {
    unsigned n = 0;
    for (const hk_waiting_t *is = hk_load_relaxed(&q->top[cls]); is->p != NULL; is--)
        blocks[n++] = is->p;
    for (unsigned i = 0; i <= q->last[cls]; i++)
        if (q->blocks[cls].waits[i].p != NULL)
            blocks[n++] = q->blocks[cls].waits[i].p;
    return n;
}

void hk_quarantine_begin(hk_quarantine_t *q) {
    q->stream = hk_guard_stream();
    hk_store_relaxed(&q->dice, (uint64_t)1);
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++) {
        q->end[cls] = q->blocks[cls].out;
        hk_store_relaxed(&q->top[cls], q->end[cls]);
        q->looks[cls] = HK_CLEAR_STEPS + 1;
    }
}

/* A class has its size once there is a block of it. */
static void prepare(hk_quarantine_t *q, unsigned cls) {
    q->room[cls] = (uint16_t)hk_classes[cls].size;
    q->looks[cls] = (uint8_t)hk_clear_steps(q->room[cls]);
    q->last[cls] = (uint8_t)(hk_quarantine_room(cls) - 1);
    q->end[cls] = q->blocks[cls].out + HK_QUARANTINE_OUT;
    hk_store_relaxed(&q->top[cls], q->end[cls] - hk_quarantine_out(cls));
}

HK_NOINLINE uint64_t hk_quarantine_throw(hk_quarantine_t *q) {
    enum { BITS = 30 }; /* twice, and ten times six */
    if (hk_guard->quarantine_bytes == 0)
        return 1;
    const uint64_t number = hk_random_below(&q->stream, 1u << BITS);
    return (uint64_t)1 << 2 * BITS | number << BITS | hk_random_below(&q->stream, 1u << BITS);
}

bool hk_quarantine_put_out(hk_quarantine_t *q, unsigned cls, hk_waiting_t one) {
    if (q->room[cls] == 0)
        prepare(q, cls);
    hk_waiting_t *top = hk_load_relaxed(&q->top[cls]);
    if (top == q->end[cls])
        return false;
    top[1] = one;
    hk_store_relaxed(&q->top[cls], top + 1);
    return true;
}

void *hk_quarantine_put_slow(hk_quarantine_t *q, unsigned cls, hk_waiting_t in) {
    uint64_t dice = hk_quarantine_close(q);
    hk_waiting_t out = in;
    if (dice == 1)
        dice = hk_quarantine_throw(q);
    if (dice > 1) {
        hk_waiting_t *place = &q->blocks[cls].waits[dice & q->last[cls]];
        out = *place;
        *place = in;
        hk_quarantine_waits(q, cls, out.p == NULL);
        dice >>= HK_QUARANTINE_BITS;
    }
    const bool gone = out.p == NULL || hk_quarantine_put_out(q, cls, out);
    hk_quarantine_open(q, dice);
    return gone ? NULL : out.p;
}

void *hk_quarantine_drain(hk_quarantine_t *q, unsigned cls) {
    void *p = hk_quarantine_take(q, cls).p;
    for (unsigned i = 0; p == NULL && i <= q->last[cls]; i++) {
        if ((p = q->blocks[cls].waits[i].p) == NULL)
            continue;
        q->blocks[cls].waits[i].p = NULL;
        if (hk_load_relaxed(&q->wait[cls]) !=
            0) /* a fork may have come between the block and its count */
            hk_quarantine_waits(q, cls, -1);
    }
    return p;
}
