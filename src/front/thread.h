/* Threads: one record each, with its magazines and its heap, from the first allocation to the end.
 *
 * Records are type-stable. A thread's end leaves the record, heap and slabs included, to the next
 * thread that starts; meanwhile running threads adopt its slabs. Its magazines are emptied, unless threads come and go
 * and they hold little; what waits in quarantine waits on. */
#pragma once

#include "backend/heap.h"
#include "front/tcache.h"
#include "guard/quarantine.h"

/* What the boundary keeps about a bin, apart from what hits touch. Of a crowd's thread a shelf's visitor counts outside of it, where a
 * signal handler may have gone to the boundary in between: that is a memory location of its own. */
typedef struct {
    uint32_t capacity : 11; /* blocks; 0 until the bin is first used */
    uint32_t flushed : 11;  /* blocks that the last visit gave back; 0: it was a refill */
    uint32_t left : 10;     /* of what lay on top after the last flush: enough to know it again */
    uint16_t visited;       /* the thread's count of visits at the last one */
    uint8_t frees : 1;      /* the last visit was a flush */
    uint8_t streak : 4;     /* flushes of a thread that has only freed between them */
    struct {
        uint8_t
            crowd : 1; /* its thread is one of many, and what it has comes from slabs that they share */
        uint8_t crowd_visits : 7; /* so many since it had its last look at that */
    };
} hk_magazine_t;

enum { HK_CROWD_VISITS = 128 };

_Static_assert(sizeof(hk_magazine_t) == 8, "each thread has one for each class");

typedef struct hk_observed hk_observed_t; /* front/observed.c */
typedef struct hk_shelves hk_shelves_t;   /* front/crowd.c */

/* Where a thread is, as far as others must know. Its own entry and a fork's hold exclude each
 * other; a signal handler that finds HK_INSIDE has interrupted its own thread there. */
typedef enum {
    HK_OUTSIDE, /* of the boundary: hits, or none of our code */
    HK_INSIDE,  /* changing its record, and shared structures under their locks */
    HK_HELD     /* outside, and kept there while another thread forks, or sees whether it is idle */
} hk_gate_t;

/* Whether the thread has done anything lately, as far as the purger has looked (front/idle.c). */
typedef enum {
    HK_AWAKE,
    HK_TRAPPED, /* its next operation shows that it is not idle */
    HK_ROBBED   /* it was, and most of what lay in its magazines is gone */
} hk_idle_t;

/* Whether somebody hears that an allocation is about to be refused: not while one is told of that, nor of one that can be
 * done without, which is no refusal. */
typedef enum { HK_REFUSALS_HEARD, HK_REFUSALS_UNHEARD, HK_REFUSALS_NONE } hk_refusals_t;

/* So many blocks' slots a thread has for each class from the start, and for so many a magazine gets room in
 * its rest then. */
enum { HK_FEW = HK_HOSTILE ? 1 : 2, HK_SOME = HK_HOSTILE ? 1 : 16 };

/* What a thread needs that does more than a little, or is observed: made then, and kept with its
 * record. */
typedef struct {
    unsigned used;                          /* owner: slots up to the end of the last magazine's */
    unsigned taken;                         /* owner: of these, magazines' */
    _Atomic uint16_t place[HK_CLASS_COUNT]; /* owner writes, any reads: slot 0 of a magazine */
    _Atomic uint16_t emptied
        [HK_CLASS_COUNT]; /* who holds it outside writes, any reads: slots that were emptied */
    hk_tcache_t trap;     /* const: all bins unused, so all comes to the boundary */
    void *slots[HK_SLOT_COUNT]; /* owner: of magazines with room for more than a few blocks */
    atomic_uint
        until_sample; /* atomic: the owner, and who changes the rate: allocations up to the next sampled one */
} hk_thread_rest_t;

/* Invariant: allotted == sum over classes of capacity * size; *tc is &cache or
 * &rest->trap, the latter while the thread is observed, or may be idle. */
struct hk_thread {
    hk_tcache_t cache;         /* owner */
    atomic_uint gate;          /* atomic: hk_gate_t */
    atomic_uchar idle;         /* owner, inside, and who holds it outside: hk_idle_t */
    bool shared;               /* const: the record of threads that have none */
    atomic_uint plan;          /* atomic: how the thread is observed (observe/plan.h); 0: not */
    unsigned char refusals;    /* owner: hk_refusals_t */
    unsigned char exit_rounds; /* owner: rounds of destructors seen */
    unsigned char served;      /* owner: threads that it has seen the end of, up to a few */
    uint16_t visits;           /* owner: to the boundary, modulo 2^16 */
    uint16_t swept;            /* owner: what that was when the heap had grown last */
    uint16_t idle_at;          /* owner: the magazine looked at last for whether it is idle */
    unsigned crowd;            /* owner: the shared heap used last */
    unsigned turns;            /* owner: how often it has used a shelf (front/crowd.h) */
    unsigned counts_since;     /* owner: which change its countdown is of (front/watched.c) */
    atomic_bool telling;       /* owner: a watcher hears of something (front/watched.h) */
    size_t allotted;           /* owner: bytes that magazines have room for */
    size_t warm;               /* owner: bytes in magazines and quarantine, as it is an orphan's */
    size_t unnoted;            /* owner: bytes given back that the purger has not heard of */
    hk_shelves_t *shelves;     /* owner: those of the processor it was on; NULL: not known */
    hk_magazine_t magazines[HK_CLASS_COUNT]; /* owner */
    hk_thread_t *all_next;                   /* const once set; lock: registry */
    hk_thread_t *orphan_next;                /* lock: registry */
    _Atomic(hk_observed_t *) observed;       /* atomic: owner writes; NULL until first observed */
    _Atomic(hk_quarantine_t *)
        quarantine; /* atomic: const once set, by any thread; NULL where nothing is guarded */
    _Atomic(hk_tcache_t *) *tc;       /* lock: registry; the thread's hk_tc, NULL: no thread */
    _Atomic(hk_thread_rest_t *) rest; /* atomic: any thread makes it; NULL until then */
    hk_heap_t heap;
    void *few[HK_CLASS_COUNT][1 + HK_FEW]; /* owner: the slots of bins with room for few blocks */
};

/* The record to work on, inside the boundary: the thread's own, made if there is none yet, or the
 * shared one, locked, for a thread past its end. NULL: no lock may be taken, because a signal
 * handler interrupted its thread inside the boundary, or because another thread is forking. */
hk_thread_t *hk_thread_enter(void);
void hk_thread_leave(hk_thread_t *thread);

/* Whether the calling thread has no record, and has hardly freed anything: what a thread that never allocates frees at its
 * end, after all destructors, is not worth a record that nobody would come back for. Counts. */
bool hk_frees_first(void);
HK_INLINE bool hk_thread_frees_for_once(void) {
    return HK_UNLIKELY(hk_load_relaxed(&hk_tc)->thread == NULL) && hk_frees_first();
}

/* hk_thread_enter() for who frees: a thread without a record that has run all destructors gets none any more, which it would leave
 * to nobody, but works on the shared one. */
hk_thread_t *hk_thread_enter_to_free(void);

/* The calling thread's record, made if there is none yet; forks are handled from then on. NULL: it can have none. */
hk_thread_t *hk_thread_served(void);

/* hk_thread_enter() for somebody without another way: waits for a fork's end, for at most a second. NULL
 * also in the fork handlers of others on the thread that forks. The caller may take the registry's
 * lock. */
hk_thread_t *hk_thread_enter_patiently(void);

/* The same, but once that has taken too long, as in the child of a fork past the C library's, nobody waits any more. */
hk_thread_t *hk_thread_enter_after_fork(void);

/* `of` points to who has entered: where a fork waits it leaves, and enters patiently again. False: it could not, and is NULL now. For
 * what takes long where there is much memory. No lock is held. */
bool hk_thread_makes_way(void *of);

/* A fork waits for those who are inside: nobody else enters meanwhile, or a thread that hardly does anything
 * but enter would keep it waiting for ever. atomic: set and cleared by the thread that forks. */
extern atomic_bool hk_fork_waits;

/* Whether the calling thread is between the two halves of a fork, and holds all others: it runs fork handlers of the
 * program's. The child of such a handler may have locks that a thread had which is not there. */
bool hk_fork_is_mine(void);

/* The owner, inside, was thought to be idle. */
void hk_idle_over(hk_thread_t *thread);

/* What entering is for a thread whose record is at hand. */
HK_INLINE bool hk_gate_enter(hk_thread_t *thread) {
    unsigned outside = HK_OUTSIDE;
    if (hk_load_relaxed(&hk_fork_waits) ||
        !hk_cas_acquire(&thread->gate, &outside, (unsigned)HK_INSIDE))
        return false;
    if (HK_UNLIKELY(hk_load_relaxed(&thread->idle) != HK_AWAKE))
        hk_idle_over(thread);
    return true;
}

/* release: a fork that holds the thread sees its magazines as they are now */
HK_INLINE void hk_gate_leave(hk_thread_t *thread) {
    hk_store_release(&thread->gate, (unsigned)HK_OUTSIDE);
}

/* The rest of the record, made if it is not there yet; NULL: out of memory. Any thread. */
hk_thread_rest_t *hk_thread_rest(hk_thread_t *thread);

/* Whether the record has seen the end of several threads: they come and go, and what it has serves the next. */
HK_INLINE bool hk_thread_comes_and_goes(const hk_thread_t *thread) {
    enum { SEVERAL = 8 };
    return thread->served == SEVERAL;
}

/* Whether there are so many threads that one which needs few blocks gets no slab of its own for
 * them (front/crowd.h); and so many that most of them cannot be busy. */
enum { HK_MANY_THREADS = HK_HOSTILE ? 2 : 32, HK_VERY_MANY_THREADS = HK_HOSTILE ? 12 : 96 };
HK_INLINE bool hk_threads_are_many(void) {
    return hk_load_acquire(&hk_heap_threads) > HK_MANY_THREADS;
}
HK_INLINE bool hk_threads_are_very_many(void) {
    return hk_load_relaxed(&hk_heap_threads) > HK_VERY_MANY_THREADS;
}

/* Gives all blocks that the thread holds back to their slabs, those that wait in quarantine where they shall. The thread is entered. */
void hk_thread_flush(hk_thread_t *thread, bool what_waits);

/* The process ends: of a single thread's the magazines go back, by which a block is found that is in them twice, or is none. Beside
 * others nothing does: in a child that was made past the fork handlers one that is not there may have a lock. */
void hk_thread_finish(void);

/* The same for all records that no thread has: their magazines are as at first. The caller has entered its
 * own, and holds no lock. */
void hk_threads_cool_orphans(void);

/* Calls `visit` for every record there is, under the registry lock. False: as
 * hk_thread_enter_patiently(), and nothing was done. */
typedef void hk_thread_visitor_t(hk_thread_t *thread, void *argument);
bool hk_threads_visit(hk_thread_visitor_t *visit, void *argument);

/* Gives up the flat page map (backend/pagemap.h), for all threads, unless the registry's lock cannot be had within a
 * second. The caller has entered its record and holds no lock. */
void hk_threads_give_up_flat_map(void);

/* The blocks of each class that lie in the magazines and layers of all threads, while these go on:
 * each record's figure is as of some moment of the call. The caller has entered its record, or
 * handles no signals that allocate. */
void hk_threads_held(size_t blocks[HK_CLASS_COUNT]);

/* Sets the thread's plan from the options, and points the thread at its trap or its cache. The
 * registry is locked. */
void hk_thread_plan_locked(hk_thread_t *thread);
