/* A thread's quarantine: for each class a few freed blocks that wait, and a stack of blocks that
 * have waited and are ready to be given out. Each newcomer drives out a random one, so that nobody
 * can predict when a block is given out again.
 *
 *   put ──► waits: a random place ──► whoever was there ──► out: a stack ──► take
 *
 * The address of its shadow is kept beside each block, so that giving it out need not look it
 * up. */
#pragma once

#include "backend/pagemap.h"
#include "base/random.h"
#include "guard/guard.h"
#include "guard/tail.h"

/* The most blocks of a class that may wait, and that may have waited; and how many of either until
 * the class gets all its places: with many threads, one that hardly frees any would hold more in
 * quarantine than in use. */
enum { HK_QUARANTINE_MOST = 64, HK_QUARANTINE_OUT = 32, HK_QUARANTINE_BITS = 6 };
enum { HK_QUARANTINE_FEW = 4 };
/* Blocks that come from the magazine at a time, if there is room: at first, and for a thread that
 * does more than a little. A class with all its places has room for the first number. */
enum { HK_QUARANTINE_FRESH = 8, HK_QUARANTINE_MORE_FRESH = 16 };
enum { HK_QUARANTINE_RECENT = 16 };

typedef struct {
    void *p;
    _Atomic uint16_t *shadow;
} hk_waiting_t;

/* A class's part of the quarantine. Half a cache line, so that a malloc or free touches one line of
 * it. */
typedef struct {
    /* any thread reads; the block to take next; below the first lies the place without one */
    _Atomic(hk_waiting_t *) top;
    hk_waiting_t *waits; /* the places to wait in; they follow those of blocks that have waited */
    uint64_t reciprocal; /* of the class; 0 until it is used */
    uint16_t room;       /* a block's bytes; 0 until the class is used */
    /* steps in which a block is cleared: hk_clear_steps(); too many for the short way until the
     * class is used */
    uint8_t looks;
    uint8_t last;      /* number of the last place to wait in */
    atomic_uchar wait; /* any thread reads; number of blocks that wait */
    /* visits by the long way while the class has few places; HK_QUARANTINE_ALL: it has all */
    uint8_t visits;
} hk_bay_t;
_Static_assert(sizeof(hk_bay_t) == 32, "two to a cache line");

/* owner: the thread and its signal handlers, for all fields not marked otherwise. */
typedef struct hk_quarantine {
    /* A random number of which each newcomer uses a few bits. 1: used up; always so if no block
     * shall wait and blocks put in are taken next. 0: the quarantine is closed, nothing is
     * moved. */
    _Alignas(HK_CACHE_LINE) _Atomic uint64_t dice;
    uint64_t stream;
    unsigned throws, small; /* numbers drawn; classes in use with few places */
    uint64_t used;          /* bit set of classes that its present thread has put blocks of */
    hk_waiting_t *unused;   /* first place that no class has */
    unsigned came;          /* number of blocks that came from slabs */
    unsigned visits_of_all; /* number of visits by the long way */
    /* by kind, so that a free need not ask for the kind: those of other kinds are never used */
    _Alignas(HK_CACHE_LINE) hk_bay_t bays[HK_KIND_COUNT];
    /* any thread reads; of each class the place below its stack, which is never filled */
    _Atomic(hk_waiting_t *) none[HK_CLASS_COUNT];
    void *recent[HK_QUARANTINE_RECENT]; /* the blocks that came from slabs last */
    hk_waiting_t places[];
} hk_quarantine_t;

/* The asm keeps compilers from recomputing the address for each field. */
HK_INLINE hk_bay_t *hk_quarantine_bay(hk_quarantine_t *q, size_t kind) {
    hk_bay_t *bay = &q->bays[kind];
    __asm__("" : "+r"(bay));
    return bay;
}
HK_INLINE unsigned hk_quarantine_class(const hk_quarantine_t *q, const hk_bay_t *bay) {
    return (unsigned)(bay - q->bays);
}

/* How many blocks of a class may wait, if any may: a power of two; and how many may have waited. */
unsigned hk_quarantine_room(unsigned cls);
unsigned hk_quarantine_out(unsigned cls);

/* A quarantine's size, with all the places that its classes may get. */
size_t hk_quarantine_bytes(void);

/* Whether the class still has few places; counts a visit, and tells whether its thread has freed
 * blocks of it often. */
enum { HK_QUARANTINE_OFTEN = 32, HK_QUARANTINE_ALL = UINT8_MAX };
HK_INLINE bool hk_quarantine_is_small(const hk_quarantine_t *q, unsigned cls) {
    return q->bays[cls].visits != HK_QUARANTINE_ALL;
}
HK_INLINE bool hk_quarantine_visited_often(hk_quarantine_t *q, unsigned cls) {
    return q->bays[cls].visits == HK_QUARANTINE_OFTEN ||
           ++q->bays[cls].visits == HK_QUARANTINE_OFTEN;
}

/* Gives the class all its places. The class is small, the quarantine closed, and the thread
 * entered: a fork must not find it half done. */
void hk_quarantine_grow(hk_quarantine_t *quarantine, unsigned cls);

/* Room for blocks of the class that have waited: in all, and left. */
HK_INLINE unsigned hk_quarantine_most_out(const hk_quarantine_t *q, unsigned cls) {
    return (unsigned)(q->bays[cls].waits - hk_load_relaxed(&q->none[cls]) - 1);
}
HK_INLINE unsigned hk_quarantine_out_left(const hk_quarantine_t *q, unsigned cls) {
    return (unsigned)(q->bays[cls].waits - hk_load_relaxed(&q->bays[cls].top) - 1);
}

/* Before the present thread first puts in a block of the class: later blocks go by the short ways.
 * It is closed. */
void hk_quarantine_use_first(hk_quarantine_t *quarantine, unsigned cls);
HK_INLINE void hk_quarantine_use(hk_quarantine_t *q, unsigned cls) {
    if (HK_UNLIKELY((q->used >> cls & 1) == 0))
        hk_quarantine_use_first(q, cls);
}

/* Its thread has ended: the next one has used no class. */
void hk_quarantine_leave(hk_quarantine_t *quarantine);

/* How many blocks of the class it has, of either kind. Any thread. */
unsigned hk_quarantine_count(hk_quarantine_t *quarantine, unsigned cls);

/* Lists the blocks of a class, of either kind, without taking them out; returns how many. Owner. */
unsigned hk_quarantine_list(const hk_quarantine_t *quarantine, unsigned cls,
                            void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT]);

/* Initializes one that is zero. */
void hk_quarantine_begin(hk_quarantine_t *quarantine);

/* Closes it while the thread works on a block or moves some. A signal handler that interrupts it
 * then neither puts nor takes a block; if it ends the process, nothing is checked, because a block
 * may be half given out or half cleared. Returns what hk_quarantine_open() needs. */
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

/* `more` more blocks wait. */
HK_INLINE void hk_quarantine_waits(hk_bay_t *bay, int more) {
    hk_store_relaxed(&bay->wait, (unsigned char)(hk_load_relaxed(&bay->wait) + more));
}

/* Takes a block that has waited; NULL: there is none. It is closed; the place keeps its contents
 * until it is opened. */
HK_INLINE const hk_waiting_t *hk_quarantine_take_closed(hk_bay_t *bay) {
    hk_waiting_t *top = hk_load_relaxed(&bay->top);
    if (HK_UNLIKELY(top->p == NULL))
        return NULL;
    hk_store_relaxed(&bay->top, top - 1);
    atomic_signal_fence(memory_order_seq_cst); /* before the block is used */
    return top;
}

HK_INLINE hk_waiting_t hk_quarantine_take(hk_quarantine_t *q, unsigned cls) {
    const uint64_t dice = hk_quarantine_close(q);
    const hk_waiting_t *place = hk_quarantine_take_closed(&q->bays[cls]);
    const hk_waiting_t got = place != NULL ? *place : (hk_waiting_t){NULL, NULL};
    hk_quarantine_open(q, dice);
    return got;
}

/* A new random number after the old one is used up. 1 if no block shall wait; and now and then
 * while a class has few places, because a thread that takes and frees in turn would never visit by
 * the long way. It is closed. */
uint64_t hk_quarantine_throw(hk_quarantine_t *quarantine);

/* Puts a block in and opens the quarantine. False: the block was not put in, use
 * hk_quarantine_put_slow(). */
HK_INLINE bool hk_quarantine_put(hk_quarantine_t *q, uint64_t dice, hk_bay_t *bay,
                                 hk_waiting_t in) {
    if (HK_UNLIKELY(dice <= 1)) {
        dice = dice != 0 ? hk_quarantine_throw(q) : 0;
        if (dice <= 1) {
            hk_quarantine_open(q, dice);
            return false;
        }
    }
    hk_waiting_t *next = hk_load_relaxed(&bay->top) + 1;
    hk_waiting_t *waits = bay->waits;
    if (HK_UNLIKELY(next == waits)) {
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

/* Notes a block that has come from a slab. It is closed. */
HK_INLINE void hk_quarantine_note(hk_quarantine_t *q, void *p) {
    q->recent[q->came++ % HK_QUARANTINE_RECENT] = p;
}

/* Puts in blocks from slabs that are ready to be given out, the last one next; the caller knows
 * that there is room. It is closed. */
void hk_quarantine_put_fresh(hk_quarantine_t *quarantine, unsigned cls, void *const *blocks,
                             unsigned n);

/* Puts in a block that is ready to be given out; false: there is no room. It is closed. */
bool hk_quarantine_put_out(hk_quarantine_t *quarantine, unsigned cls, hk_waiting_t one);

/* hk_quarantine_put() for every case. Returns a block for which there is no room, or NULL. */
void *hk_quarantine_put_slow(hk_quarantine_t *quarantine, unsigned cls, hk_waiting_t in);

/* Takes a block out, whether it has waited or not; NULL: there is none. */
void *hk_quarantine_drain(hk_quarantine_t *quarantine, unsigned cls);
