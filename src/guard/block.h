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
#pragma once

#include "backend/superslab.h"
#include "base/base.h"
#include "guard/guard.h"
#include "guard/quarantine.h"
#include "guard/tail.h"
#include "policy/purger.h"

/* What a shadow says. 0: free. Of a block that is out, in the lowest three bits, by whom it was given out, and above them
 * how much longer than asked for it is. Where that is too much, or nothing is known of a block because it was there
 * before the guard, in use or free, it has no tail, and the lowest three bits are 0. */
enum {
    HK_BLOCK_FREE = 0,
    HK_BLOCK_BY = 7,
    HK_BLOCK_SLACK_SHIFT = 3,
    HK_BLOCK_MOST_SLACK = UINT16_MAX >> HK_BLOCK_SLACK_SHIFT,
    HK_BLOCK_EARLY = 8,
    HK_BLOCK_VAGUE = 16, /* and above, by whom */
    HK_BLOCK_VAGUE_SHIFT = 5
};

/* Brings in the pages that handing out these blocks will look at, by a write that changes nothing: a look would
 * bring in the system's page of zeros, and the first write after that another one. */
void hk_block_touch(void **blocks, unsigned n, unsigned cls);

/* The block at p is free: has somebody written to it? */
void hk_block_look(void *p, unsigned cls);

/* The blocks on either side of it, while no other thread allocates: the tail of one that is out too. */
void hk_block_look_beside(char *p, unsigned cls);

/* The same of what lies around p, if that is a block, and of the block itself; not where it is so long that what is free of it may
 * have no memory. False: something was written over, and a fault reported. */
bool hk_block_look_around(char *p);

/* All others, and the tails of blocks that are out, while no other thread allocates: of so many blocks at most. */
void hk_block_look_at_all(unsigned most);

/* hk_block_hand_out() of any free block of the class, whose shadow is there. */
void hk_block_hand_out_any(hk_waiting_t is, unsigned cls, size_t n, hk_by_t by);

/* The block that has waited, free and of class cls, is somebody's now: n bytes of it, not much less than it has. False: it does
 * not read as zero, and nothing has changed. */
HK_INLINE bool hk_block_hand_out(const hk_bay_t *bay, const hk_waiting_t *is, size_t n,
                                 hk_by_t by) {
    const size_t room = bay->room;
    char *p = is->p;
    hk_assert(n <= room && room - n <= HK_BLOCK_MOST_SLACK);
    if (HK_UNLIKELY(!hk_is_clear(p, bay->looks)))
        return false;
    if (HK_LIKELY(hk_guard->tail != 0))
        hk_tail_begin(p, n, room);
    hk_store_relaxed(is->shadow, (uint16_t)((room - n) << HK_BLOCK_SLACK_SHIFT | by));
    return true;
}

/* False: another thread has freed the block meanwhile. Who allocates alone needs no exclusive access to
 * say so, which takes longer than all else; that it is not alone any more it may miss once. */
HK_INLINE bool hk_block_set_free(_Atomic uint16_t *shadow, uint16_t was) {
    if (HK_UNLIKELY(!hk_load_relaxed(&hk_purger_on_foot)))
        return hk_cas_acquire(shadow, &was, (uint16_t)HK_BLOCK_FREE);
    hk_store_relaxed(shadow, (uint16_t)HK_BLOCK_FREE);
    return true;
}

/* Clears the first n bytes of a block, more than have a way in. */
void hk_block_clear_long(char *p, size_t n);

/* Whatever is in a slab of class cls, and its shadow if it has one, is freed, by somebody who may know its size. False:
 * something is odd, and nothing has changed. `longer`: more may have to be cleared than has a way in. */
HK_INLINE bool hk_block_take_back(const hk_bay_t *bay, hk_waiting_t is, hk_by_t by, size_t n,
                                  bool longer) {
    const size_t room = bay->room;
    const size_t was = HK_LIKELY(is.shadow != NULL) ? hk_load_relaxed(is.shadow) : HK_BLOCK_FREE;
    const size_t bytes = room - (was >> HK_BLOCK_SLACK_SHIFT);
    const size_t ends = (bytes + HK_CLEAR_STEP) / HK_CLEAR_STEP; /* the tail's rest goes with it */
    const size_t steps = hk_min(ends, bay->looks);
    if (HK_UNLIKELY((longer && room == 0) || by != (was & HK_BLOCK_BY) ||
                    (n != bytes && n != HK_ANY_SIZE)) ||
        HK_UNLIKELY(!hk_block_set_free(is.shadow, (uint16_t)was)))
        return false;
    if (HK_LIKELY(hk_guard->tail != 0) &&
        HK_UNLIKELY(!hk_tail_is_whole(is.p, bytes, room) ||
                    (longer && !hk_is_zero_behind(is.p, bytes, room, hk_guard->zeroed)))) {
        hk_store_relaxed(is.shadow, (uint16_t)was); /* for who says what is odd */
        return false;
    }
    hk_tail_clear(is.p, bytes, room);
    if (longer)
        hk_block_clear_long(is.p, hk_min(ends * HK_CLEAR_STEP, room));
    else
        hk_clear(is.p, steps);
    return true;
}

/* The same, whatever is odd. False: a fault was reported, and there is nothing more to do. */
bool hk_block_take_back_odd(void *p, unsigned cls, hk_by_t by, size_t n);

/* The bytes that were asked for; a fault unless the block is out. */
size_t hk_block_bytes(const void *p, unsigned cls);

/* The same of what is in a slab of a class but the first, where it is as nearly always; else HK_NO_SIZE. */
HK_INLINE size_t hk_block_asked(const void *p, unsigned cls) {
    _Atomic uint16_t *shadow = hk_shadow_in(p, cls, true);
    const uint16_t is = HK_LIKELY(shadow != NULL) ? hk_load_relaxed(shadow) : HK_BLOCK_FREE;
    const bool exact = HK_LIKELY((is & HK_BLOCK_BY) != 0);
    return exact ? hk_classes[cls].size - (is >> HK_BLOCK_SLACK_SHIFT) : HK_NO_SIZE;
}

/* The same, but HK_NO_SIZE where it is not out. */
size_t hk_block_known(const void *p, unsigned cls);

/* The block that is out has n bytes now, no more than its class. False: what it had before is in
 * doubt, a fault was reported. */
bool hk_block_resize(void *p, unsigned cls, size_t n);

/* Says what an access at p did that failed, if it is beside a slab; false: it is not. In a signal handler. */
bool hk_block_report(const void *p);
