/* A heap owns slabs: one per thread, outliving it. It fills magazines from its slabs and takes
 * blocks back, whoever frees them; a block of another heap's slab becomes a remote free.
 *
 * Heaps are type-stable. When its thread ends, a heap keeps its slabs and becomes an orphan: the
 * next thread takes it over whole, or running threads adopt its slabs one by one. */
#pragma once

#include "backend/stash.h"
#include "base/counters.h"
#include "base/lock.h"

/* Invariant: partial[c] lists exactly the slabs of class c owned by this heap with a free bit
 * set. */
struct hk_heap {
    hk_lock_t lock;
    _Atomic uint64_t counts[HK_HEAP_COUNT_COUNT]; /* written under the lock, read by any thread */
    hk_slab_t *partial[HK_CLASS_COUNT]; /* lock: heap; rings: the first one's prev is the last */
    /* written under the lock, read by any thread: a bit for each class that may have an empty slab */
    _Atomic uint64_t empties;
    /* lock: heap; by next, of no owner: for the pool, once the heap is unlocked */
    hk_slab_t *retired;
    size_t grown;  /* owner: bytes of slabs whose memory was not there yet, since the last sweep */
    size_t wanted; /* owner: the bytes that somebody asked for last and came here for */
    /* atomic: slabs with remote frees to collect */
    _Alignas(HK_CACHE_LINE) _Atomic(hk_slab_t *) pending;
    hk_heap_t *all_next; /* const once set: every heap there ever was */
    _Atomic bool orphan; /* atomic: no thread serves it; written under the registry lock */
    hk_stash_t stash;
};

/* Makes zeroed memory a heap and adds it to the list of all heaps. */
void hk_heap_init(hk_heap_t *heap);

/* Takes up to `n` blocks of class `cls` and writes them to out[0..n) so that the lowest address
 * comes last (a stack pops it first). Returns how many; 0 only when out of memory. Called by the
 * heap's thread. */
unsigned hk_heap_take(hk_heap_t *heap, unsigned cls, void **out, unsigned n);

/* Gives n blocks of class `cls` back to the slabs they came from, whoever owns those. Aborts on a double or
 * invalid free. Called by the heap's thread. */
void hk_heap_give(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n);

/* The same, but only so many at least, and those behind them that lie in the last one's slab. Returns how many it gave. */
unsigned hk_heap_give_some(hk_heap_t *heap, unsigned cls, void *const *blocks, unsigned n,
                           unsigned least);

/* Gives one block of class `cls` back as another thread would, whoever owns its slab. Takes no
 * lock, so anybody may call it at any time: a signal handler inside the boundary, a thread beside a
 * fork. */
void hk_heap_give_remote(unsigned cls, void *p);

/* Classes, by their bits, of whose slabs much is free beside blocks in use (policy/look.c). What is freed of these
 * had better go back to its slab than be handed out again as it comes: the fullest slabs then serve, and
 * the others empty out. A class that needs a new slab is none of them any more. */
extern _Atomic uint64_t hk_heap_sparse; /* atomic: any thread */
HK_INLINE bool hk_heap_is_sparse(unsigned cls) {
    return hk_load_relaxed(&hk_heap_sparse) >> cls & 1;
}

/* Collects what others have freed and retires empty slabs, keeping none, and clears the stash. */
void hk_heap_collect(hk_heap_t *heap);

/* The same for all heaps that have something pending, or are orphans with an empty slab or, with `empties`, have one, and
 * whose lock is free. Calls `visit` for the stash of each. */
void hk_heap_collect_all(bool empties, void (*visit)(hk_stash_t *stash));

/* Collects and retires for some heaps, at a bounded cost: what is done before new memory is taken. The next
 * call goes on where this one ends. */
void hk_heap_collect_pending(void);

/* hk_pool_take() for the heap: what lies on its stash, whose memory is there, and what others have freed comes before new
 * memory. */
hk_slab_t *hk_heap_take_slices(hk_heap_t *heap, unsigned slices, unsigned cls, unsigned align);

/* The heap that owns the slab, locked; NULL where none does. */
hk_heap_t *hk_heap_lock_owner(const hk_slab_t *slab);

/* For a purge: takes pages out of a slab's reach (hk_slab_claim) and puts them back, under the lock
 * of whatever heap owns the slab then. The caller holds no heap's lock. *seen is set where more
 * pages will be old enough next time. */
uint64_t hk_heap_claim(hk_slab_t *slab, hk_claim_t which, bool *seen);
void hk_heap_unclaim(hk_slab_t *slab, uint64_t pages, uint64_t purged, bool lazily);

/* Whether a thread serves the heap, or many do. Called under the registry lock. */
void hk_heap_set_orphan(hk_heap_t *heap, bool orphan);

/* How many heaps no thread serves. */
extern atomic_uint hk_heap_orphans; /* atomic: any thread */

/* How many threads have a heap. Written by the front under the registry's lock. */
extern atomic_uint hk_heap_threads; /* atomic: any thread */

/* What all heaps have counted since the process started. Any thread, no lock. */
uint64_t hk_heap_counted(hk_heap_counter_t counter);

/* In a fork's child, which counts from its own start. */
void hk_heap_counters_forked(void);

/* In a fork's child, where all other threads were outside the boundary or took no lock: what such a thread has freed and not
 * queued yet is queued. */
void hk_heap_forked(void);
