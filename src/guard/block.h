/* A guarded block of a class: its shadow, its tail, and its contents while it is free.
 *
 *   free ── hand out: does it read as zero? ──► out: so many bytes asked for, by whom
 *    ▲                                           │
 *    └── take back: is it out? is the tail whole? cleared
 *
 * The tail lies between the bytes that were asked for and the block's end: up to 16 bytes, whose
 * value depends on the address and a secret. The rest of the block reads as zero, as all of it does
 * while it is free.
 *
 * A block has at least 16 bytes, except for blocks that were given out before the guard. */
#pragma once

#include "backend/superslab.h"
#include "base/base.h"
#include "guard/guard.h"
#include "guard/quarantine.h"
#include "guard/tail.h"
#include "policy/purger.h"

/* The values of a shadow. 0: free. For a block in use, the lowest three bits say what gave it out
 * (hk_by_t), the bits above how many bytes longer than asked for it is. If that number is too
 * large, or the block was there before the guard, in use or free, the lowest three bits are 0 and
 * it has no tail. */
enum {
    HK_BLOCK_FREE = 0,
    HK_BLOCK_BY = 7,
    HK_BLOCK_SLACK_SHIFT = 3,
    HK_BLOCK_MOST_SLACK = UINT16_MAX >> HK_BLOCK_SLACK_SHIFT,
    HK_BLOCK_EARLY = 8,
    HK_BLOCK_VAGUE = 16, /* the bits above say what gave it out */
    HK_BLOCK_VAGUE_SHIFT = 5
};

/* Touches the pages that handing out these blocks will read, by a write that changes nothing: a
 * read would map the system's zero page, and the first write would fault again. */
void hk_block_touch(void **blocks, unsigned n, unsigned cls);

/* Checks the free block at p; reports a fault if it was written to. */
void hk_block_look(void *p, unsigned cls);

/* Checks the blocks on either side of p, the tails of those in use too. No other thread may
 * allocate meanwhile. */
void hk_block_look_beside(char *p, unsigned cls);

/* The same for p and some neighbours, if p is a block. Skips long blocks: a free one may have no
 * memory. False: a fault was reported. */
bool hk_block_look_around(char *p);

/* Checks free blocks and the tails of blocks in use, at most `most` of them. No other thread may
 * allocate meanwhile. */
void hk_block_look_at_all(unsigned most);

/* hk_block_hand_out() for any free block of the class; its shadow's address is known. */
void hk_block_hand_out_any(hk_waiting_t is, unsigned cls, size_t n, hk_by_t by);

/* Gives out a block that has waited, for n bytes, not much less than it has. False: it does not
 * read as zero, and nothing has changed. */
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

/* False: another thread has freed the block meanwhile. A thread that allocates alone uses a plain
 * store, for an atomic exchange would take longer than all the rest; once another thread has
 * started, it may miss that one time. */
HK_INLINE bool hk_block_set_free(_Atomic uint16_t *shadow, uint16_t was) {
    if (HK_UNLIKELY(!hk_load_relaxed(&hk_purger_on_foot)))
        return hk_cas_acquire(shadow, &was, (uint16_t)HK_BLOCK_FREE);
    hk_store_relaxed(shadow, (uint16_t)HK_BLOCK_FREE);
    return true;
}

/* Clears the first n bytes of a block that is too long for hk_clear(). */
void hk_block_clear_long(char *p, size_t n);

/* Frees what lies in a slab of the bay's class; its shadow may be NULL. The caller may know its
 * size n. False: something is odd, and nothing has changed. `longer`: more may have to be cleared
 * than hk_clear() can. */
HK_INLINE bool hk_block_take_back(const hk_bay_t *bay, hk_waiting_t is, hk_by_t by, size_t n,
                                  bool longer) {
    const size_t room = bay->room;
    const size_t was = HK_LIKELY(is.shadow != NULL) ? hk_load_relaxed(is.shadow) : HK_BLOCK_FREE;
    const size_t bytes = room - (was >> HK_BLOCK_SLACK_SHIFT);
    const size_t ends = (bytes + HK_CLEAR_STEP) / HK_CLEAR_STEP; /* includes the rest of the tail */
    const size_t steps = hk_min(ends, bay->looks);
    if (HK_UNLIKELY((longer && room == 0) || by != (was & HK_BLOCK_BY) ||
                    (n != bytes && n != HK_ANY_SIZE)) ||
        HK_UNLIKELY(!hk_block_set_free(is.shadow, (uint16_t)was)))
        return false;
    if (HK_LIKELY(hk_guard->tail != 0) &&
        HK_UNLIKELY(!hk_tail_is_whole(is.p, bytes, room) ||
                    (longer && !hk_is_zero_behind(is.p, bytes, room, hk_guard->zeroed)))) {
        hk_store_relaxed(is.shadow, (uint16_t)was); /* for the check of what is odd */
        return false;
    }
    hk_tail_clear(is.p, bytes, room);
    if (longer)
        hk_block_clear_long(is.p, hk_min(ends * HK_CLEAR_STEP, room));
    else
        hk_clear(is.p, steps);
    return true;
}

/* The same after something odd. False: a fault was reported, and there is nothing more to do. */
bool hk_block_take_back_odd(void *p, unsigned cls, hk_by_t by, size_t n);

/* The bytes that were asked for; reports a fault if the block is not in use. */
size_t hk_block_bytes(const void *p, unsigned cls);

/* The same if the block lies in a slab of any class but the first, is in use, and its size is known
 * exactly, as nearly always; else HK_NO_SIZE. */
HK_INLINE size_t hk_block_asked(const void *p, unsigned cls) {
    _Atomic uint16_t *shadow = hk_shadow_in(p, cls, true);
    const uint16_t is = HK_LIKELY(shadow != NULL) ? hk_load_relaxed(shadow) : HK_BLOCK_FREE;
    const bool exact = HK_LIKELY((is & HK_BLOCK_BY) != 0);
    return exact ? hk_classes[cls].size - (is >> HK_BLOCK_SLACK_SHIFT) : HK_NO_SIZE;
}

/* The same, but HK_NO_SIZE if the block is not in use. */
size_t hk_block_known(const void *p, unsigned cls);

/* Resizes a block in use to n bytes, no more than its class has. False, and a fault was reported:
 * it is not in use, or its tail is not whole. */
bool hk_block_resize(void *p, unsigned cls, size_t n);

/* Reports a failed access at p if p lies beside a slab; false: it does not. In a signal handler. */
bool hk_block_report(const void *p);
