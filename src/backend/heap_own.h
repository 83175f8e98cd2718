/* Shared by heap.c and heap_give.c. */
#pragma once

#include "backend/heap.h"

void hk_heap_count_locked(hk_heap_t *heap, hk_heap_counter_t counter, unsigned n);

/* `n` more of the slab's local bits are set: updates its free count and list, and retires it or
 * notes it as empty. The heap is locked and owns the slab. */
void hk_heap_gained(hk_heap_t *heap, hk_slab_t *slab, unsigned n);

/* Blocks freed by hk_heap_give_remote(), which holds no heap's lock and so counts in none. atomic:
 * any thread */
extern _Atomic uint64_t hk_heap_given_beside;

/* How many calls of hk_heap_give_remote() are under way: in all threads, and in this one (more than
 * one if a signal handler frees). A fork's child in which other threads' calls were under way may
 * have slabs with remote bits that are on no pending list, and no thread that will put them
 * there. */
extern atomic_uint hk_heap_giving; /* atomic: any thread */
extern _Thread_local unsigned hk_heap_own_giving;

/* Makes sure that the slab is on its owner's pending list, or will be. Any thread, no lock. */
void hk_heap_announce(hk_slab_t *slab);

/* Unlocks the heap, then gives its retired slabs to the pool. */
void hk_heap_leave(hk_heap_t *heap);
