/* A guarded block of a class: what its shadow says, its tail, and what is in it while it is free.
 *
 *   free ── hand out: does it read as zero? ──► out: so many bytes asked for, by whom
 *    ▲                                           │
 *    └── take back: is it out? is the tail whole? cleared
 *
 * The tail is what lies between the bytes that were asked for and the block's end: up to so many bytes
 * have a value that depends on the address and a secret, and none of them is 0. What lies behind them reads as
 * zero, now as when the block is free.
 *
 * A block has at least 16 bytes, but for those that were there before the guard. */
#ifndef HK_GUARD_BLOCK_H
#define HK_GUARD_BLOCK_H

#include "backend/superslab.h"
#include "base/base.h"
#include "guard/guard.h"
#include "guard/tail.h"
#include "policy/purger.h"

/* What a shadow says. Of a block that is out, in the lowest two bits, by whom it was given out; above
 * them how much longer than asked for it is, or as much as there is room for: that much at least, and it has
 * no tail. */
enum {
    HK_BLOCK_FREE = 0,
    HK_BLOCK_BY = 3,
    HK_BLOCK_SLACK_SHIFT = 2,
    HK_BLOCK_MOST_SLACK = UINT16_MAX >> HK_BLOCK_SLACK_SHIFT,
    /* it was there before the guard, in use or free: nothing is known of it */
    HK_BLOCK_EARLY = 8
};
_Static_assert((HK_BLOCK_EARLY & HK_BLOCK_BY) == 0, "is told from a block that is out");

HK_INLINE bool hk_block_is_out(uint16_t shadow) { return (shadow & HK_BLOCK_BY) != 0; }

HK_INLINE bool hk_block_is_exact(uint16_t shadow) {
    return hk_block_is_out(shadow) && shadow < HK_BLOCK_MOST_SLACK << HK_BLOCK_SLACK_SHIFT;
}

/* What says that n bytes of a block that has so much room are somebody's now. */
HK_INLINE uint16_t hk_block_shadow(size_t n, size_t room, unsigned by) {
    const size_t slack = hk_min(room - n, HK_BLOCK_MOST_SLACK);
    return (uint16_t)(slack << HK_BLOCK_SLACK_SHIFT | by);
}

/* Brings in the pages that handing out these blocks will look at, by a write that changes nothing: a look would
 * bring in the system's page of zeros, and the first write after that another one. */
void hk_block_touch(void **blocks, unsigned n, unsigned cls);

/* The block at p is free: has somebody written to it? */
void hk_block_look(void *p, unsigned cls);

/* hk_block_hand_out() of a block that may not be clear. */
void *hk_block_hand_out_odd(void *p, unsigned cls, size_t n, hk_by_t by);

/* The block at p, free and of class cls, is somebody's now: n bytes of it. */
HK_INLINE void *hk_block_hand_out(void *p, unsigned cls, size_t n, hk_by_t by) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_shadow_in(hk_shadow_owner(p), p, cls, true);
    hk_assert(n <= room && !hk_block_is_out(hk_load_relaxed(shadow)));
    if (HK_UNLIKELY(!hk_is_clear(p, hk_min(room, hk_guard->zeroed))))
        return hk_block_hand_out_odd(p, cls, n, by);
    hk_store_relaxed(shadow, hk_block_shadow(n, room, by));
    if (HK_LIKELY(hk_guard->tail != 0))
        hk_tail_begin(p, n, room);
    return p;
}

/* False: another thread has freed the block meanwhile. Who allocates alone needs no exclusive access to
 * say so, which takes longer than all else; that it is not alone any more it may miss once. */
HK_INLINE bool hk_block_set_free(_Atomic uint16_t *shadow, uint16_t was) {
    if (HK_UNLIKELY(!hk_load_relaxed(&hk_purger_on_foot)))
        return hk_cas_acquire(shadow, &was, (uint16_t)HK_BLOCK_FREE);
    hk_store_relaxed(shadow, (uint16_t)HK_BLOCK_FREE);
    return true;
}

/* Any p in a slab of class cls, whose unit has this owner, is freed, by somebody who may know its size. What is
 * as it should be is done here. What is odd is hk_block_take_back_odd()'s, as if nothing had been seen; what is
 * overrun is free already, with so many bytes, and hk_block_take_back_overrun()'s. */
typedef enum { HK_BLOCK_TAKEN, HK_BLOCK_ODD, HK_BLOCK_RACED, HK_BLOCK_OVERRUN } hk_block_end_t;
HK_INLINE hk_block_end_t hk_block_take_back(void *p, unsigned cls, const void *owner, hk_by_t by,
                                            size_t n, size_t *bytes) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_shadow_in(owner, p, cls, false);
    const uint16_t was = HK_LIKELY(shadow != NULL) ? hk_load_relaxed(shadow) : HK_BLOCK_FREE;
    if (HK_UNLIKELY(!hk_block_is_exact(was) || by != (was & HK_BLOCK_BY)))
        return HK_BLOCK_ODD;
    *bytes = room - (was >> HK_BLOCK_SLACK_SHIFT);
    if (HK_UNLIKELY(n != *bytes && n != HK_ANY_SIZE))
        return HK_BLOCK_ODD;
    if (HK_UNLIKELY(!hk_block_set_free(shadow, was)))
        return HK_BLOCK_RACED;
    if (HK_LIKELY(hk_guard->tail != 0) && HK_UNLIKELY(!hk_tail_is_whole(p, *bytes, room)))
        return HK_BLOCK_OVERRUN;
    hk_clear(p, hk_min(hk_align_up(hk_tail_end(*bytes, room), 16), hk_guard->zeroed));
    return HK_BLOCK_TAKEN;
}

void hk_block_take_back_overrun(void *p, unsigned cls, size_t bytes);

/* The same for whatever lies there. False: a fault was reported, and there is nothing more to do. */
bool hk_block_take_back_odd(void *p, unsigned cls, hk_by_t by, size_t n);

/* The bytes that were asked for; a fault unless the block is out. */
size_t hk_block_bytes(const void *p, unsigned cls);

/* The same, but 0 where it is not out. */
size_t hk_block_known(const void *p, unsigned cls);

/* The block that is out has n bytes now, no more than its class. False: what it had before is in
 * doubt, a fault was reported. */
bool hk_block_resize(void *p, unsigned cls, size_t n);

#endif
