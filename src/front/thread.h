/* Threads: one record each, with its magazines and its heap, from the first allocation to the end.
 *
 * Records are type-stable. A thread's end leaves the record, heap and slabs included, to the next
 * thread that starts; meanwhile running threads adopt its slabs. The ending thread empties its
 * magazines, unless threads come and go and the magazines hold little; its quarantine stays, within
 * a bound. */
#pragma once

#include "backend/heap.h"
#include "front/tcache.h"
#include "guard/quarantine.h"

/* What the boundary keeps about a bin, apart from what hits touch. hk_crowd_pop() and
 * hk_crowd_push() count outside the boundary, where a signal handler may interrupt them and enter:
 * so the crowd's two fields are a struct, that is, a memory location of their own, and writing one
 * never rewrites the other bit fields. */
typedef struct {
    uint32_t capacity : 11; /* blocks; 0 until the bin is first used */
    uint32_t flushed : 11;  /* blocks that the last visit gave back; 0: it was a refill */
    uint32_t left : 10;     /* hash of the address on top after the last flush (front/magazine.c) */
    uint16_t visited;       /* the thread's `visits` at the last visit to this magazine */
    uint8_t frees : 1;      /* the last visit was a flush */
    uint8_t streak : 4;     /* flushes in a row between which the thread has only freed */
    struct {
        uint8_t crowd : 1; /* of the crowd in this class: its blocks come from shared slabs */
        uint8_t crowd_visits : 7; /* operations since the thread last decided whether it stays */
    };
} hk_magazine_t;

enum { HK_CROWD_VISITS = 128 };

_Static_assert(sizeof(hk_magazine_t) == 8, "each thread has one for each class");

typedef struct hk_shelves hk_shelves_t; /* front/crowd.c */

/* Where a thread is, as far as others must know. The owner's entry and the hold of a fork or of the
 * purger exclude each other; a signal handler that finds HK_INSIDE has interrupted its own thread
 * there. */
typedef enum {
    HK_OUTSIDE, /* runs the program, or a hit */
    HK_INSIDE,  /* changes its record, and shared structures under their locks */
    HK_HELD     /* outside, and kept there by a thread that forks, or by the purger */
} hk_gate_t;

/* Whether the thread is idle, as far as the purger knows (front/idle.c). */
typedef enum {
    HK_AWAKE,
    HK_TRAPPED, /* its trap is set: the next operation shows that it is not idle */
    HK_ROBBED   /* it was idle, and the purger took most of what its magazines held */
} hk_idle_t;

/* What a refused allocation of the thread does: calls the hook (hk_refusal) and counts; only
 * counts, while the hook runs; or neither, for an allocation that the caller can do without. */
typedef enum { HK_REFUSALS_HEARD, HK_REFUSALS_UNHEARD, HK_REFUSALS_NONE } hk_refusals_t;

/* HK_FEW: blocks of each class for which the record itself has slots. HK_SOME: the capacity that a
 * magazine first grows to when it moves to the record's rest. */
enum { HK_FEW = HK_HOSTILE ? 1 : 2, HK_SOME = HK_HOSTILE ? 1 : 16 };

/* The rest of a record: allocated when a magazine outgrows the record's own slots, or when the
 * thread is observed; never freed. */
typedef struct {
    unsigned used;                          /* owner: end of the last magazine in `slots` */
    unsigned taken;                         /* owner: of these, slots that belong to a magazine */
    _Atomic uint16_t place[HK_CLASS_COUNT]; /* owner writes, any reads: index of its slot 0 */
    _Atomic uint16_t emptied
        [HK_CLASS_COUNT]; /* owner and purger write, any reads: lowest slots that were emptied */
    hk_tcache_t trap;     /* const: all bins unused, so that every operation goes to the boundary */
    void *slots[HK_SLOT_COUNT]; /* owner: of magazines with room for more than HK_FEW blocks */
    /* atomic: the owner, and a thread that changes the rate: allocations up to the next sampled
     * one */
    atomic_uint until_sample;
} hk_thread_rest_t;

/* Invariant: allotted == sum over classes of capacity * size; *tc is &cache or &rest->trap, the
 * latter while the thread is observed, or while the purger takes it for idle. */
struct hk_thread {
    hk_tcache_t cache;         /* owner */
    atomic_uint gate;          /* atomic: hk_gate_t */
    atomic_uchar idle;         /* owner inside, and who holds the gate: hk_idle_t */
    bool shared;               /* const: the one record that threads without a record share */
    atomic_uint plan;          /* atomic: how the thread is observed (observe/plan.h); 0: not */
    unsigned char refusals;    /* owner: hk_refusals_t */
    unsigned char exit_rounds; /* owner: rounds of destructors seen */
    unsigned char served;      /* owner: threads whose end the record has seen, up to a few */
    uint16_t visits;           /* owner: to the boundary, modulo 2^16 */
    uint16_t swept;            /* owner: `visits` at the last sweep (front/magazine.c) */
    uint16_t idle_at;          /* owner: the class last looked at for an idle magazine */
    unsigned crowd;            /* owner: index of the shared heap used last */
    unsigned turns;            /* owner: uses of shelves (front/crowd.c) */
    unsigned counts_since;     /* owner: the change that its countdown is of (front/watched.c) */
    atomic_bool telling;       /* owner: a watcher is at work on this thread (front/watched.h) */
    size_t allotted;           /* owner: bytes that magazines have room for */
    size_t warm;               /* owner: bytes in magazines and quarantine that an orphan keeps */
    size_t unnoted;            /* owner: bytes given back that the purger does not know of */
    hk_shelves_t *shelves;     /* owner: of the processor it was on last; NULL: not known */
    hk_magazine_t magazines[HK_CLASS_COUNT]; /* owner */
    hk_thread_t *all_next;                   /* const once set; lock: registry */
    hk_thread_t *orphan_next;                /* lock: registry */
    _Atomic(hk_observed_t *) observed;       /* atomic: owner writes; NULL until first observed */
    _Atomic(hk_quarantine_t *)
        quarantine; /* atomic: const once set, under the registry lock; NULL: not guarded */
    _Atomic(hk_tcache_t *) *tc;       /* lock: registry; the thread's hk_tc; NULL: no thread */
    _Atomic(hk_thread_rest_t *) rest; /* atomic: any thread makes it; NULL until then */
    hk_heap_t heap;
    void *few[HK_CLASS_COUNT][1 + HK_FEW]; /* owner: slots of magazines of up to HK_FEW blocks */
};

/* Enters, and returns the record to work on: the thread's own, made if it has none yet, or the
 * shared one, locked, for a thread past its end or where there is no memory for a record. NULL: no
 * lock may be taken, because a signal handler interrupted its thread inside the boundary, because
 * another thread is forking, or because the caller is the purger. */
hk_thread_t *hk_thread_enter(void);
void hk_thread_leave(hk_thread_t *thread);

/* Whether the calling thread has no record, and this is one of its first few frees. A thread that
 * never allocates frees a little at its end, after all destructors: a record made for that would
 * never be left to another thread. Counts. */
bool hk_frees_first(void);
HK_INLINE bool hk_thread_frees_for_once(void) {
    return HK_UNLIKELY(hk_load_relaxed(&hk_tc)->thread == NULL) && hk_frees_first();
}

/* hk_thread_enter() for a free: a thread without a record that has run all its destructors works on
 * the shared one, for it could not leave a record of its own to another thread. */
hk_thread_t *hk_thread_enter_to_free(void);

/* The calling thread's record, made if there is none yet; the fork handlers are registered from
 * then on. NULL: it can have none. */
hk_thread_t *hk_thread_served(void);

/* hk_thread_enter() for a caller that has no other way: waits for another thread's fork to end, for
 * at most a second. NULL also between the two halves of the calling thread's own fork, that is, in
 * other libraries' fork handlers. The caller may take the registry's lock. */
hk_thread_t *hk_thread_enter_patiently(void);

/* The same; but once a thread has waited in vain, as in a child that was made past the C library's
 * fork, no thread waits until one can enter again. */
hk_thread_t *hk_thread_enter_after_fork(void);

/* For operations that take long where there is much memory: `of` points to the entered record; if a
 * fork waits, the thread leaves, and enters patiently again. False: it could not enter, and *of is
 * NULL. No lock is held. */
bool hk_thread_makes_way(void *of);

/* A fork waits for the threads that are inside: no other thread enters meanwhile, or one that does
 * hardly anything but enter would keep the fork waiting for ever. atomic: set and cleared by the
 * thread that forks. */
extern atomic_bool hk_fork_waits;

/* Whether the calling thread is between the two halves of its fork and holds all other threads: it
 * runs other libraries' fork handlers then. In the child, locks of threads that do not exist there
 * may be taken. */
bool hk_fork_is_mine(void);

/* The thread is not idle any more: closes the ranks of magazines that the purger emptied, and sends
 * it by its cache again. For the owner, inside, or for an orphan under the registry lock. */
void hk_idle_over(hk_thread_t *thread);

/* hk_thread_enter() for a thread that has a record. False: it is held, a fork waits, or a signal
 * handler interrupted the thread inside. */
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

/* Whether the record has seen the end of several threads: where threads come and go, it keeps its
 * blocks for the next. */
HK_INLINE bool hk_thread_comes_and_goes(const hk_thread_t *thread) {
    enum { SEVERAL = 8 };
    return thread->served == SEVERAL;
}

/* More threads than HK_MANY_THREADS: one that is not busy in a class gets no slab of its own for it
 * (front/crowd.h). More than HK_VERY_MANY_THREADS: most of them cannot be busy at all. */
enum { HK_MANY_THREADS = HK_HOSTILE ? 2 : 32, HK_VERY_MANY_THREADS = HK_HOSTILE ? 12 : 96 };
HK_INLINE bool hk_threads_are_many(void) {
    return hk_load_acquire(&hk_heap_threads) > HK_MANY_THREADS;
}
HK_INLINE bool hk_threads_are_very_many(void) {
    return hk_load_relaxed(&hk_heap_threads) > HK_VERY_MANY_THREADS;
}

/* Gives all blocks that the thread holds back to their slabs, with `what_waits` those in quarantine
 * too. The thread is entered. */
void hk_thread_flush(hk_thread_t *thread, bool what_waits);

/* At the end of the process: flushes the magazines of the only thread that allocates, which finds
 * double and invalid frees of the blocks in them. Does nothing under a guard (hk_guarded_finish()),
 * nor beside other threads: in a child that was made past the fork handlers, a thread that does not
 * exist there may hold a lock. */
void hk_thread_finish(void);

/* Flushes and resets the magazines, layers and quarantines of all records that have no thread, or,
 * in a fork's child, of one whose thread only the parent has. False: no such record holds blocks
 * any more, and if threads are few now, the shelves are empty too. The caller has entered its own
 * record, or is the purger, and holds no lock. */
bool hk_threads_cool_orphans(bool all);

/* Calls `visit` for every record, under the registry lock. False: it could not enter
 * (hk_thread_enter_patiently()), and nothing was done. */
typedef void hk_thread_visitor_t(hk_thread_t *thread, void *argument);
bool hk_threads_visit(hk_thread_visitor_t *visit, void *argument);

/* Gives up the flat page map (backend/pagemap.h), for all threads, unless the registry's lock
 * cannot be had within a second. The caller has entered its record and holds no lock. */
void hk_threads_give_up_flat_map(void);

/* The blocks of each class in the magazines, layers and quarantines of all threads, and on shelves.
 * Threads run meanwhile: each record's figure is as of some moment of the call. The caller has
 * entered its record, or handles no signals that allocate. */
void hk_threads_held(size_t blocks[HK_CLASS_COUNT]);

/* Sets the thread's plan from the options, and points the thread at its trap or its cache. The
 * registry is locked. */
void hk_thread_plan_locked(hk_thread_t *thread);
