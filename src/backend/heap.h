/* A heap owns slabs, and fills magazines from them. Each thread record has one, which outlives the
 * thread; a crowd's threads share a few (front/crowd.h). A block goes back to the slab it came
 * from, whichever thread frees it: to another heap's slab by a remote free.
 *
 * Heaps are type-stable. When a thread ends, its heap keeps its slabs and becomes an orphan: the
 * next thread that starts takes it over whole, or running threads adopt its slabs one by one. */
#pragma once

#include "backend/stash.h"
#include "base/counters.h"
#include "base/lock.h"

/* Invariant: partial[c] lists exactly the slabs of class c owned by this heap with a free bit
 * set. */
struct hk_heap {
    hk_lock_t lock;
    _Atomic uint64_t counts[HK_HEAP_COUNT_COUNT]; /* written under the lock, read by any thread */
    hk_slab_t *partial[HK_CLASS_COUNT]; /* lock: heap; rings: the head's prev is the last slab */
    /* written under the lock, read by any thread: a bit for each class that may have an empty
     * slab */
    _Atomic uint64_t empties;
    /* lock: heap; slabs without an owner, linked by next; they go to the pool once the heap is
     * unlocked */
    hk_slab_t *retired;
    /* owner: bytes of new slabs that had pages without memory, since the thread's last sweep */
    size_t grown;
    /* owner: size of the latest request at the boundary, for hk_class_note(); not used in a
     * crowd's heap */
    size_t wanted;
    /* atomic: slabs with remote frees to collect */
    _Alignas(HK_CACHE_LINE) _Atomic(hk_slab_t *) pending;
    hk_heap_t *all_next; /* const once set: links all heaps, which are never freed */
    _Atomic bool orphan; /* atomic: no thread uses the heap; written under the registry lock */
    hk_stash_t stash;
};

/* Makes zeroed memory a heap and adds it to the list of all heaps. */
void hk_heap_init(hk_heap_t *heap);

/* Takes up to `n` blocks of class `cls` for a request of `wanted` bytes, and writes them to out[0..n)
 * so that the lowest address comes last (a stack pops it first). Returns how many; 0 only when out
 * of memory. Called by a thread that the heap serves. */
unsigned hk_heap_take_for(hk_heap_t *heap, unsigned cls, void **out, unsigned n, size_t wanted);

/* The same from the thread's own heap. */
HK_INLINE unsigned hk_heap_take(hk_heap_t *heap, unsigned cls, void **out, unsigned n) {
    return hk_heap_take_for(heap, cls, out, n, heap->wanted);
}

/* Gives n blocks of class `cls` back to their slabs, whichever heaps own these. Aborts on a double
 * or invalid free. Called by a thread that the heap serves. */
void hk_heap_give(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n);

/* The same for at least the first `least` blocks; blocks behind these may go too while they lie in
 * the last one's slab. Returns how many it gave. */
unsigned hk_heap_give_some(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n,
                           unsigned least);

/* Gives one block of class `cls` back by a remote free, even to the caller's own slab. Lock-free
 * and reentrant: also for a signal handler that has interrupted the boundary, and for a thread that
 * runs beside a fork. */
void hk_heap_give_remote(unsigned cls, void *p);

/* The same for a block that no thread has freed just now: it lay in an idle thread's magazine, and
 * does not count as a remote free. */
void hk_heap_give_idle(unsigned cls, void *p);

/* A bit for each sparse class: much is free in its slabs beside blocks in use (policy/look.c sets
 * it). Freed blocks of such a class should go back to their slabs rather than be reused at once:
 * then the fullest slabs serve and the others become empty. A class that needs a new slab loses its
 * bit. */
extern _Atomic uint64_t hk_heap_sparse; /* atomic: any thread */
HK_INLINE bool hk_heap_is_sparse(unsigned cls) {
    return hk_load_relaxed(&hk_heap_sparse) >> cls & 1;
}

/* Collects remote frees, retires all empty slabs, and clears the stash. Called by the heap's
 * thread. */
void hk_heap_collect(hk_heap_t *heap);

/* Collects and retires for every heap whose lock is free, if it has remote frees pending, or if it
 * may have empty slabs and is an orphan or `empties` is set. Calls `visit` for the stash of every
 * heap. */
void hk_heap_collect_all(bool empties, void (*visit)(hk_stash_t *stash));

/* Collects and retires for a bounded number of heaps. Called before new memory is taken. The next
 * call goes on where this one ends. */
void hk_heap_collect_pending(void);

/* hk_pool_take() for the heap. Before it takes new memory it clears the stash, looks for slices in
 * the superslabs there are, and collects remote frees. */
hk_slab_t *hk_heap_take_slices(hk_heap_t *heap, unsigned slices, unsigned cls, unsigned align);

/* Locks the heap that owns the slab and returns it; NULL: the slab has no owner. */
hk_heap_t *hk_heap_lock_owner(const hk_slab_t *slab);

/* For a purge: claims pages of a slab (hk_slab_claim), and puts them back, under the lock of the
 * heap that owns the slab at that moment. The caller holds no heap's lock. Sets *seen if the slab
 * has more pages that will be old enough at the next look. */
uint64_t hk_heap_claim(hk_slab_t *slab, hk_claim_t which, bool *seen);
void hk_heap_unclaim(hk_slab_t *slab, uint64_t pages, uint64_t purged, bool lazily);

/* Marks the heap as an orphan, or as used by one or more threads. Called under the registry
 * lock. */
void hk_heap_set_orphan(hk_heap_t *heap, bool orphan);

/* How many heaps are orphans, and how many threads have a heap; the latter is written by the front
 * under the registry's lock. */
extern atomic_uint hk_heap_orphans, hk_heap_threads; /* atomic: any thread */

/* What all heaps have counted since the process started. Any thread, no lock. */
uint64_t hk_heap_counted(hk_heap_counter_t counter);

/* In a fork's child: its counts start at 0. */
void hk_heap_counters_forked(void);

/* In a fork's child: queues slabs whose remote frees the parent's other threads had not queued yet.
 * The fork kept all of these outside the boundary, except those in hk_heap_give_remote(). */
void hk_heap_forked(void);
