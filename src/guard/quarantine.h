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

/* Blocks of a class that may wait, and that may have waited; and how many of either until the class has all of its places: one of
 * many threads that hardly frees anything would hold more in quarantine than in use. */
enum { HK_QUARANTINE_MOST = 64, HK_QUARANTINE_OUT = 32, HK_QUARANTINE_BITS = 6 };
enum { HK_QUARANTINE_FEW = 4 };
/* That come from the magazine at a time, as far as there is room: at first, and of a thread that does more than a little. Of any class
 * there is room for the first. */
enum { HK_QUARANTINE_FRESH = 8, HK_QUARANTINE_MORE_FRESH = 16 };
enum { HK_QUARANTINE_RECENT = 16 };

typedef struct {
    void *p;
    _Atomic uint16_t *shadow;
} hk_waiting_t;

/* What it has of a class, side by side: a malloc or free that finds all of it in one cache line waits for one. */
typedef struct {
    /* any thread reads; the one to take next; below the first, nobody: none */
    _Atomic(hk_waiting_t *) top;
    hk_waiting_t *waits; /* the places to wait in, which lie behind those of what has waited */
    uint64_t reciprocal; /* the class's; 0 until it is used */
    uint16_t room;       /* bytes of a block; 0 until then */
    /* how much of a block is cleared: hk_clear_steps(); until the class is used more than has a way in */
    uint8_t looks;
    uint8_t last;      /* the last place to wait in */
    atomic_uchar wait; /* any thread reads; so many do */
    /* how often a block took the long way in while there were few places; HK_QUARANTINE_ALL: it has all */
    uint8_t visits;
} hk_bay_t;
_Static_assert(sizeof(hk_bay_t) == 32, "two to a cache line");

/* All of it is the owning thread's, and of signal handlers that interrupt it. */
typedef struct hk_quarantine {
    /* A number of it, of which each newcomer takes a few bits; 1: used up, as always where none shall wait and what is
     * put is taken next. 0: it is closed, and nothing is driven out. */
    _Alignas(HK_CACHE_LINE) _Atomic uint64_t dice;
    uint64_t stream;
    unsigned throws, small; /* numbers that were thrown; classes in use that have few places */
    uint64_t used;          /* a bit for each class of which its thread of now has put any */
    hk_waiting_t *unused;   /* the first place that is no class's */
    unsigned came;          /* blocks from slabs */
    unsigned visits_of_all; /* how often its threads have come the long way */
    _Alignas(HK_CACHE_LINE) hk_bay_t bays[HK_CLASS_COUNT];
    /* any thread reads; the place below the first of these that have waited, which is never filled */
    _Atomic(hk_waiting_t *) none[HK_CLASS_COUNT];
    void *recent[HK_QUARANTINE_RECENT]; /* the blocks that came from slabs last */
    hk_waiting_t places[];
} hk_quarantine_t;

/* Worked out once: compilers do so anew for each of what it has. */
HK_INLINE hk_bay_t *hk_quarantine_bay(hk_quarantine_t *q, size_t cls) {
    hk_bay_t *bay = &q->bays[cls];
    __asm__("" : "+r"(bay));
    return bay;
}
HK_INLINE unsigned hk_quarantine_class(const hk_quarantine_t *q, const hk_bay_t *bay) {
    return (unsigned)(bay - q->bays);
}

/* How many blocks of a class may wait, where any may: a power of two; and how many may have waited. */
unsigned hk_quarantine_room(unsigned cls);
unsigned hk_quarantine_out(unsigned cls);

/* What a quarantine takes, all that its classes may come to have included. */
size_t hk_quarantine_bytes(void);

/* Whether the class has few places as yet, and whether its thread frees much of it all the same; counts a visit. */
enum { HK_QUARANTINE_OFTEN = 32, HK_QUARANTINE_ALL = UINT8_MAX };
HK_INLINE bool hk_quarantine_is_small(const hk_quarantine_t *q, unsigned cls) {
    return q->bays[cls].visits != HK_QUARANTINE_ALL;
}
HK_INLINE bool hk_quarantine_visited_often(hk_quarantine_t *q, unsigned cls) {
    return q->bays[cls].visits == HK_QUARANTINE_OFTEN ||
           ++q->bays[cls].visits == HK_QUARANTINE_OFTEN;
}

/* Gives the class all of its places. It is small, and closed; the thread is entered, for a fork must not find it half done. */
void hk_quarantine_grow(hk_quarantine_t *quarantine, unsigned cls);

/* How many of the class may have waited as it is now, how many more there may be, and whether there are so many. */
HK_INLINE unsigned hk_quarantine_most_out(const hk_quarantine_t *q, unsigned cls) {
    return (unsigned)(q->bays[cls].waits - hk_load_relaxed(&q->none[cls]) - 1);
}
HK_INLINE unsigned hk_quarantine_out_left(const hk_quarantine_t *q, unsigned cls) {
    return (unsigned)(q->bays[cls].waits - hk_load_relaxed(&q->bays[cls].top) - 1);
}
HK_INLINE bool hk_quarantine_is_full(const hk_quarantine_t *q, unsigned cls) {
    return hk_load_relaxed(&q->bays[cls].top) + 1 == q->bays[cls].waits;
}

/* The thread that has it now puts a block of the class in: from the first one on that goes the short ways, as those do that it takes.
 * It is closed. */
void hk_quarantine_use_first(hk_quarantine_t *quarantine, unsigned cls);
HK_INLINE void hk_quarantine_use(hk_quarantine_t *q, unsigned cls) {
    if (HK_UNLIKELY((q->used >> cls & 1) == 0))
        hk_quarantine_use_first(q, cls);
}

/* Its thread has ended: the next one has used none. */
void hk_quarantine_leave(hk_quarantine_t *quarantine);

/* How many there are of either. Any thread. */
unsigned hk_quarantine_count(hk_quarantine_t *quarantine, unsigned cls);

/* The blocks of a class of either, without taking them out; returns how many. Owner. */
unsigned hk_quarantine_list(const hk_quarantine_t *quarantine, unsigned cls,
                            void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT]);

/* Of one that is zero. */
void hk_quarantine_begin(hk_quarantine_t *quarantine);

/* The thread is at a block, or moves some. A signal handler puts nothing in meanwhile, nor takes anything, so that the thread finds all as it
 * was; if it ends the process nothing is looked at, for a block may be half given out, or half cleared. Returns what to tell open. */
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
HK_INLINE void hk_quarantine_waits(hk_bay_t *bay, int more) {
    hk_store_relaxed(&bay->wait, (unsigned char)(hk_load_relaxed(&bay->wait) + more));
}

/* Takes one that has waited; NULL: there is none. It is closed, and until it is opened the place says what it did. */
HK_INLINE const hk_waiting_t *hk_quarantine_take_closed(hk_bay_t *bay) {
    hk_waiting_t *top = hk_load_relaxed(&bay->top);
    if (HK_UNLIKELY(top->p == NULL))
        return NULL;
    hk_store_relaxed(&bay->top, top - 1);
    atomic_signal_fence(memory_order_seq_cst); /* before anything is done with it */
    return top;
}

HK_INLINE hk_waiting_t hk_quarantine_take(hk_quarantine_t *q, unsigned cls) {
    const uint64_t dice = hk_quarantine_close(q);
    const hk_waiting_t *place = hk_quarantine_take_closed(&q->bays[cls]);
    const hk_waiting_t got = place != NULL ? *place : (hk_waiting_t){NULL, NULL};
    hk_quarantine_open(q, dice);
    return got;
}

/* A new number, where the old one is used up; still 1 where none shall wait, and now and then while any class has few places, for
 * who takes and frees in turn would never come the long way. It is closed. */
uint64_t hk_quarantine_throw(hk_quarantine_t *quarantine);

/* Puts a block in, and opens what was closed. False: not that easy. */
HK_INLINE bool hk_quarantine_put(hk_quarantine_t *q, uint64_t dice, hk_bay_t *bay,
                                 hk_waiting_t in) {
    if (HK_UNLIKELY(dice <= 1) && dice != 0)
        dice = hk_quarantine_throw(q);
    hk_waiting_t *next = hk_load_relaxed(&bay->top) + 1;
    hk_waiting_t *waits = bay->waits;
    if (HK_UNLIKELY(dice <= 1 || next == waits)) {
        hk_quarantine_open(q, dice);
        return false;
    }
    hk_waiting_t *place = waits + (dice & bay->last);
    const hk_waiting_t out = *place;
    *place = in;
    if (HK_LIKELY(out.p != NULL)) {
        *next = out;
        hk_store_relaxed(&bay->top, next);
    } else {
        hk_quarantine_waits(bay, 1);
    }
    hk_quarantine_open(q, dice >> HK_QUARANTINE_BITS);
    return true;
}

/* A block has come from a slab. It is closed. */
HK_INLINE void hk_quarantine_note(hk_quarantine_t *q, void *p) {
    q->recent[q->came++ % HK_QUARANTINE_RECENT] = p;
}

/* Puts those in that come from slabs and are ready to be given out, the last one next; no more than there is room for. It is
 * closed. */
void hk_quarantine_put_fresh(hk_quarantine_t *quarantine, unsigned cls, void *const *blocks,
                             unsigned n);

/* Puts one in that is ready to be given out; false: there is no room. It is closed. */
bool hk_quarantine_put_out(hk_quarantine_t *quarantine, unsigned cls, hk_waiting_t one);

/* hk_quarantine_put(), however it is. Returns a block that has no place in it any more, or NULL. */
void *hk_quarantine_put_slow(hk_quarantine_t *quarantine, unsigned cls, hk_waiting_t in);

/* Takes one out, whether it has waited or not; NULL: there is none. */
void *hk_quarantine_drain(hk_quarantine_t *quarantine, unsigned cls);
