/* Threads: one record each, with its magazines and its heap, from the first allocation to the end.
 *
 * Records are type-stable. A thread's end empties the magazines and leaves the record, heap and
 * slabs included, to the next thread that starts; meanwhile running threads adopt its slabs. */
#ifndef HK_FRONT_THREAD_H
#define HK_FRONT_THREAD_H

#include "backend/heap.h"
#include "front/tcache.h"
#include "stats/sections.h"

/* What the boundary keeps about a bin, apart from what hits touch. */
typedef struct {
    uint16_t capacity; /* blocks; 0 until the bin is first used */
    uint16_t refill;   /* blocks to ask for at the next miss */
    bool was_flush;    /* the last visit was a flush */
    uint32_t visited;  /* the thread's count of visits at the last one */
} hk_magazine_t;

typedef struct hk_observed hk_observed_t; /* front/observed.c */

/* Where a thread is, as far as others must know. Its own entry and a fork's hold exclude each other;
 * a signal handler that finds HK_INSIDE has interrupted its own thread there. */
typedef enum {
    HK_OUTSIDE, /* of the boundary: hits, or none of our code */
    HK_INSIDE,  /* changing its record, and shared structures under their locks */
    HK_HELD     /* outside, and kept there while another thread forks */
} hk_gate_t;

/* Invariant: budget + sum over classes of capacity * size == the budget at start; *tc is &cache or
 * &trap, the latter while the thread is observed. */
struct hk_thread {
    hk_tcache_t cache;         /* owner */
    atomic_uint gate;          /* atomic: hk_gate_t */
    bool shared;               /* const: the record of threads that have none */
    atomic_uint plan;          /* atomic: how the thread is observed (observe/plan.h); 0: not */
    unsigned char exit_rounds; /* owner: rounds of destructors seen */
    uint32_t visits;           /* owner: to the boundary, modulo 2^32 */
    size_t budget;             /* owner: bytes that magazines may still grow by */
    hk_magazine_t magazines[HK_CLASS_COUNT]; /* owner */
    hk_thread_t *all_next;                   /* const once set; lock: registry */
    hk_thread_t *orphan_next;                /* lock: registry */
    _Atomic(hk_observed_t *) observed;       /* atomic: owner writes; NULL until first observed */
    _Atomic(hk_tcache_t *) *tc; /* lock: registry; the thread's hk_tc, NULL: no thread */
    hk_tcache_t trap;           /* const: all bins unused, so each operation comes to
                                   the boundary; the thread is set */
    hk_heap_t heap;
    void *slots[HK_SLOT_COUNT]; /* owner: the bins' slots; pages are touched when a bin is used */
    /* owner writes, any reads; last: its page is touched when switched on */
    hk_sections_t sections;
};

/* The record to work on, inside the boundary: the thread's own, made if there is none yet, or the
 * shared one, locked, for a thread past its end. NULL: no lock may be taken, because a signal handler
 * interrupted its thread inside the boundary, or because another thread is forking. */
hk_thread_t *hk_thread_enter(void);
void hk_thread_leave(hk_thread_t *thread);

/* The same for somebody without another way: waits for a fork's end, for at most a second. */
hk_thread_t *hk_thread_enter_patiently(void);

/* What entering is for a thread whose record is at hand. */
HK_INLINE bool hk_gate_enter(hk_thread_t *thread) {
    unsigned outside = HK_OUTSIDE;
    return hk_cas_acquire(&thread->gate, &outside, (unsigned)HK_INSIDE);
}

/* release: a fork that holds the thread sees its magazines as they are now */
HK_INLINE void hk_gate_leave(hk_thread_t *thread) {
    hk_store_release(&thread->gate, (unsigned)HK_OUTSIDE);
}

/* Gives all blocks that the thread holds back to their slabs. The thread is entered. */
void hk_thread_flush(hk_thread_t *thread);

/* Calls `visit` for every record there is, under the registry lock. False: as
 * hk_thread_enter_patiently(), and nothing was done. */
typedef void hk_thread_visitor_t(hk_thread_t *thread, void *argument);
bool hk_threads_visit(hk_thread_visitor_t *visit, void *argument);

/* Gives up the flat page map (backend/pagemap.h), for all threads. The caller has entered its record and
 * holds no lock. */
void hk_threads_give_up_flat_map(void);

/* The blocks of each class that lie in the magazines and layers of all threads, while these go on:
 * each record's figure is as of some moment of the call. The caller has entered its record, or
 * handles no signals that allocate. */
void hk_threads_held(size_t blocks[HK_CLASS_COUNT]);

/* Adds up the sections (stats/sections.h) of all threads, those that have ended included. False as
 * hk_threads_visit(). Touches nothing if they were never on. */
bool hk_threads_sections(hk_sections_sum_t *sum);

/* Sets the thread's plan from the options, and points the thread at its trap or its cache. The
 * registry is locked. */
void hk_thread_plan_locked(hk_thread_t *thread);

#endif
