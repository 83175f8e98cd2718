/* A thread's quarantine: freed blocks wait in it, of each class a few, and behind them those that have waited, ready to
 * be given out again. Which one a newcomer drives out is a matter of chance, so that nobody can tell when a block is
 * given out again.
 *
 *   put ──► waits: a random place ──► whoever was there ──► out: a stack ──► take
 *
 * Beside each block is kept where its shadow is, so that giving it out need not look for that. */
#pragma once

#include "backend/sizeclass.h"
#include "base/random.h"
#include "guard/guard.h"
#include "guard/tail.h"

/* Blocks of a class that may wait, and that may have waited. */
enum { HK_QUARANTINE_MOST = 64, HK_QUARANTINE_OUT = 32, HK_QUARANTINE_BITS = 6 };

typedef struct {
    void *p;
    _Atomic uint16_t *shadow;
} hk_waiting_t;

/* All of it is the owning thread's, and of signal handlers that interrupt it. */
typedef struct hk_quarantine {
    uint64_t stream;
    /* A number of it, of which each newcomer takes a few bits; 1: used up, as always where none shall wait and what is
     * put is taken next. 0: it is closed, and nothing is driven out. */
    _Atomic uint64_t dice;
    /* any thread reads; the one to take next; below the first, nobody: none */
    _Atomic(hk_waiting_t *) top[HK_CLASS_COUNT];
    /* the last place for it; out[0] until the first block is put */
    hk_waiting_t *end[HK_CLASS_COUNT];
    /* how much of a block is cleared: hk_clear_steps(); until then more than has a way in */
    uint8_t looks[HK_CLASS_COUNT];
    uint16_t room[HK_CLASS_COUNT];     /* bytes of a block; from here on: 0 until then */
    uint8_t last[HK_CLASS_COUNT];      /* the last place to wait in */
    atomic_uchar wait[HK_CLASS_COUNT]; /* any thread reads; so many do */
    struct {
        hk_waiting_t waits[HK_QUARANTINE_MOST], out[1 + HK_QUARANTINE_OUT];
    } blocks[HK_CLASS_COUNT];
} hk_quarantine_t;

/* How many blocks of a class may wait, where any may: a power of two; and how many may have waited. */
unsigned hk_quarantine_room(unsigned cls);
unsigned hk_quarantine_out(unsigned cls);

/* How many there are of either. Any thread. */
unsigned hk_quarantine_count(hk_quarantine_t *quarantine, unsigned cls);

/* The blocks of a class of either, without taking them out; returns how many. Owner. */
unsigned hk_quarantine_list(const hk_quarantine_t *quarantine, unsigned cls,
                            void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT]);

/* Of one that is zero. */
void hk_quarantine_begin(hk_quarantine_t *quarantine);

/* The thread is at a block, or moves some. What a signal handler frees meanwhile that it has just allocated goes back to where
 * it was, so that the thread finds all as it was; if it ends the process nothing is looked at, for a block may be half
 * given out, or half cleared. Returns what to tell open. */
HK_INLINE uint64_t hk_quarantine_close(hk_quarantine_t *q) {
    const uint64_t dice = hk_load_relaxed(&q->dice);
    hk_store_relaxed(&q->dice, (uint64_t)0);
    atomic_signal_fence(memory_order_seq_cst);
    return dice;
}

HK_INLINE void hk_quarantine_open(hk_quarantine_t *q, uint64_t dice) {
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&q->dice, dice);
}

/* So many more wait. */
HK_INLINE void hk_quarantine_waits(hk_quarantine_t *q, unsigned cls, int more) {
    hk_store_relaxed(&q->wait[cls], (unsigned char)(hk_load_relaxed(&q->wait[cls]) + more));
}

/* One that has waited; NULL: there is none. It is closed. */
HK_INLINE hk_waiting_t hk_quarantine_take_closed(hk_quarantine_t *q, unsigned cls) {
    hk_waiting_t *top = hk_load_relaxed(&q->top[cls]);
    const hk_waiting_t got = *top;
    if (HK_LIKELY(got.p != NULL))
        hk_store_relaxed(&q->top[cls], top - 1);
    atomic_signal_fence(memory_order_seq_cst); /* before anything is done with it */
    return got;
}

HK_INLINE hk_waiting_t hk_quarantine_take(hk_quarantine_t *q, unsigned cls) {
    const uint64_t dice = hk_quarantine_close(q);
    const hk_waiting_t got = hk_quarantine_take_closed(q, cls);
    hk_quarantine_open(q, dice);
    return got;
}

/* A new number, where the old one is used up; still 1 where none shall wait. It is closed. */
uint64_t hk_quarantine_throw(hk_quarantine_t *quarantine);

/* Puts a block in, and opens what was closed. False: not that easy. */
HK_INLINE bool hk_quarantine_put(hk_quarantine_t *q, uint64_t dice, unsigned cls, hk_waiting_t in) {
    hk_waiting_t *top = hk_load_relaxed(&q->top[cls]), *end = q->end[cls];
    if (HK_UNLIKELY(dice == 1))
        dice = hk_quarantine_throw(q);
    if (HK_UNLIKELY(dice <= 1 || top == end)) {
        hk_quarantine_open(q, dice);
        return false;
    }
    hk_waiting_t *place = end - (HK_QUARANTINE_OUT + HK_QUARANTINE_MOST) + (dice & q->last[cls]);
    const hk_waiting_t out = *place;
    *place = in;
    if (HK_LIKELY(out.p != NULL)) {
        top[1] = out;
        hk_store_relaxed(&q->top[cls], top + 1);
    } else {
        hk_quarantine_waits(q, cls, 1);
    }
    hk_quarantine_open(q, dice >> HK_QUARANTINE_BITS);
    return true;
}

/* Puts one in that is ready to be given out; false: there is no room. It is closed. */
bool hk_quarantine_put_out(hk_quarantine_t *quarantine, unsigned cls, hk_waiting_t one);

/* hk_quarantine_put(), however it is. Returns a block that has no place in it any more, or NULL. */
void *hk_quarantine_put_slow(hk_quarantine_t *quarantine, unsigned cls, hk_waiting_t in);

/* Takes one out, whether it has waited or not; NULL: there is none. */
void *hk_quarantine_drain(hk_quarantine_t *quarantine, unsigned cls);
