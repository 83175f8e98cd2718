#include "guard/quarantine.h"

#include <string.h>

#include "backend/superslab.h"

/* How many blocks fit into `bytes`, divided as in hk_class_index(). */
static size_t blocks_of(size_t bytes, unsigned cls) {
    return bytes * hk_classes[cls].reciprocal >> 40;
}

unsigned hk_quarantine_room(unsigned cls) {
    /* at least a few: a single one would come back with the second free */
    const size_t blocks = blocks_of(hk_guard->quarantine_bytes, cls);
    const unsigned most = (unsigned)HK_CLAMP(blocks, HK_QUARANTINE_FEW, HK_QUARANTINE_MOST);
    return 1u << (31 - __builtin_clz(most));
}

unsigned hk_quarantine_out(unsigned cls) {
    return (unsigned)HK_CLAMP(blocks_of(2 * hk_guard->quarantine_bytes, cls), HK_QUARANTINE_FRESH,
                              HK_QUARANTINE_OUT);
}

/* A snapshot; it may be too low while hk_quarantine_grow() runs. */
unsigned hk_quarantine_count(hk_quarantine_t *q, unsigned cls) {
    const hk_waiting_t *top = hk_load_relaxed(&q->bays[cls].top);
    const size_t out = (size_t)(top - hk_load_relaxed(&q->none[cls]));
    return (out <= HK_QUARANTINE_OUT ? (unsigned)out : 0) + hk_load_relaxed(&q->bays[cls].wait);
}

unsigned hk_quarantine_list(const hk_quarantine_t *q, unsigned cls,
                            void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT]) {
    const hk_waiting_t *waits = q->bays[cls].waits;
    unsigned n = 0;
    for (const hk_waiting_t *is = hk_load_relaxed(&q->bays[cls].top); is->p != NULL; is--)
        blocks[n++] = is->p;
    for (unsigned i = 0; i <= q->bays[cls].last; i++)
        if (waits[i].p != NULL)
            blocks[n++] = waits[i].p;
    return n;
}

/* One place that is never filled, those of blocks that have waited, those to wait in. A class whose
 * size is not known yet (backend/sizeclass.h) may get the most. */
static size_t places_for(unsigned cls) {
    return cls < HK_CLASS_FIXED ? 1 + hk_quarantine_out(cls) + hk_quarantine_room(cls)
                                : 1 + HK_QUARANTINE_OUT + HK_QUARANTINE_MOST;
}
enum { FEW_PLACES = 1 + HK_QUARANTINE_FEW + HK_QUARANTINE_FEW };

size_t hk_quarantine_bytes(void) {
    size_t places = 0;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++)
        places += FEW_PLACES + places_for(cls);
    return sizeof(hk_quarantine_t) + places * sizeof(hk_waiting_t);
}

/* Moves the class's places to `at`; the blocks themselves lie there already. */
static void place(hk_quarantine_t *q, unsigned cls, hk_waiting_t *at, unsigned out, unsigned waits,
                  unsigned have) {
    q->bays[cls].waits = at + 1 + out;
    hk_store_relaxed(&q->none[cls], at);
    hk_store_relaxed(&q->bays[cls].top, at + have);
    q->bays[cls].last = (uint8_t)(waits - 1);
}

void hk_quarantine_begin(hk_quarantine_t *q) {
    q->stream = hk_guard_stream();
    hk_store_relaxed(&q->dice, (uint64_t)1);
    q->unused = q->places;
    for (unsigned cls = 0; cls < HK_CLASS_COUNT; cls++, q->unused += FEW_PLACES)
        place(q, cls, q->unused, HK_QUARANTINE_FEW, HK_QUARANTINE_FEW, 0);
    hk_quarantine_leave(q);
}

void hk_quarantine_grow(hk_quarantine_t *q, unsigned cls) {
    hk_waiting_t *waits = q->bays[cls].waits, *out = waits - HK_QUARANTINE_FEW;
    const size_t have = (size_t)(hk_load_relaxed(&q->bays[cls].top) + 1 - out);
    const unsigned most = hk_quarantine_out(cls);
    hk_waiting_t *at = q->unused;
    memcpy(at + 1, out, have * sizeof *at);
    memcpy(at + 1 + most, waits, HK_QUARANTINE_FEW * sizeof *at);
    q->unused += places_for(cls);
    place(q, cls, at, most, hk_quarantine_room(cls), (unsigned)have);
    q->small -= q->bays[cls].room != 0;
    q->bays[cls].visits = HK_QUARANTINE_ALL;
}

_Static_assert(HK_CLASS_COUNT <= 64, "a bit for each class");

/* A learned class's size is known by now, because there is a block of it. Blocks of class 1 are not
 * guarded, and never go by the short ways. */
HK_COLD void hk_quarantine_use_first(hk_quarantine_t *q, unsigned cls) {
    q->small += q->bays[cls].room == 0 && hk_quarantine_is_small(q, cls);
    q->bays[cls].room = (uint16_t)hk_classes[cls].size;
    q->bays[cls].looks =
        (uint8_t)(cls != 1 ? hk_clear_steps(q->bays[cls].room) : HK_CLEAR_STEPS + 1);
    q->bays[cls].reciprocal = hk_classes[cls].reciprocal;
    q->used |= (uint64_t)1 << cls;
}

void hk_quarantine_leave(hk_quarantine_t *q) {
    for (unsigned kind = 0; kind < HK_KIND_COUNT; kind++)
        q->bays[kind].looks = HK_CLEAR_STEPS + 1;
    q->used = 0;
}

static uint64_t new_number(hk_quarantine_t *q) {
    enum { BITS = 30 }; /* two random numbers, enough for ten throws of six bits */
    if (hk_guard->quarantine_bytes == 0)
        return 1;
    const uint64_t number = hk_random_below(&q->stream, 1u << BITS);
    return (uint64_t)1 << 2 * BITS | number << BITS | hk_random_below(&q->stream, 1u << BITS);
}

HK_NOINLINE uint64_t hk_quarantine_throw(hk_quarantine_t *q) {
    enum { VISIT = 8 };
    return q->small != 0 && ++q->throws % VISIT == 0 ? 1 : new_number(q);
}

bool hk_quarantine_put_out(hk_quarantine_t *q, unsigned cls, hk_waiting_t one) {
    hk_quarantine_use(q, cls);
    hk_waiting_t *top = hk_load_relaxed(&q->bays[cls].top);
    if (hk_quarantine_out_left(q, cls) == 0)
        return false;
    top[1] = one;
    hk_store_relaxed(&q->bays[cls].top, top + 1);
    return true;
}

/* The blocks mostly lie in one slice, so its shadows are looked up once. */
void hk_quarantine_put_fresh(hk_quarantine_t *q, unsigned cls, void *const *blocks, unsigned n) {
    const hk_class_t *c = &hk_classes[cls];
    hk_shadows_t slab = {NULL, NULL};
    uintptr_t slice = 0;
    hk_quarantine_use(q, cls);
    hk_waiting_t *top = hk_load_relaxed(&q->bays[cls].top);
    hk_assert(top + n < q->bays[cls].waits);
    for (unsigned i = 0; i < n; i++) {
        char *p = blocks[i];
        if ((uintptr_t)p - slice >= HK_SLICE) {
            slab = *hk_shadows_at(p);
            slice = (uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1);
        }
        top[i + 1] = (hk_waiting_t){p, slab.shadow + hk_class_index(c, (size_t)(p - slab.base))};
        q->recent[(q->came + i) % HK_QUARANTINE_RECENT] = p;
    }
    q->came += n;
    hk_store_relaxed(&q->bays[cls].top, top + n);
}

void *hk_quarantine_put_slow(hk_quarantine_t *q, unsigned cls, hk_waiting_t in) {
    uint64_t dice = hk_quarantine_close(q);
    hk_waiting_t out = in;
    hk_quarantine_use(q, cls);
    if (dice == 1)
        dice = new_number(q);
    if (dice > 1) {
        hk_waiting_t *place = q->bays[cls].waits + (dice & q->bays[cls].last);
        out = *place;
        *place = in;
        hk_quarantine_waits(&q->bays[cls], out.p == NULL);
        dice >>= HK_QUARANTINE_BITS;
    }
    const bool gone = out.p == NULL || hk_quarantine_put_out(q, cls, out);
    hk_quarantine_open(q, dice);
    return gone ? NULL : out.p;
}

void *hk_quarantine_drain(hk_quarantine_t *q, unsigned cls) {
    void *p = hk_quarantine_take(q, cls).p;
    hk_waiting_t *waits = q->bays[cls].waits;
    for (unsigned i = 0; p == NULL && i <= q->bays[cls].last; i++) {
        if ((p = waits[i].p) == NULL)
            continue;
        waits[i].p = NULL;
        if (hk_load_relaxed(&q->bays[cls].wait) !=
            0) /* a fork may have come between the block and its count */
            hk_quarantine_waits(&q->bays[cls], -1);
    }
    return p;
}
