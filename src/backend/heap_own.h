/* What the files of the heap share. */
#pragma once

#include "backend/heap.h"

void hk_heap_count_locked(hk_heap_t *heap, hk_heap_counter_t counter, unsigned n);

/* The slab has `n` free blocks more in its local bits. The heap is locked, and owns it. */
void hk_heap_gained(hk_heap_t *heap, hk_slab_t *slab, unsigned n);

/* Blocks given back by those who take no lock, and therefore in no heap's count. atomic: any thread */
extern _Atomic uint64_t hk_heap_given_beside;

/* How many are in hk_heap_give_remote(): of all threads, and of this one, whose signal handlers may go there too. A fork's child
 * may find its slab without a place on a list, and nobody who is about to put it there. */
extern atomic_uint hk_heap_giving; /* atomic: any thread */
extern _Thread_local unsigned hk_heap_own_giving;

/* Sees to it that the slab's owner collects what has been freed remotely. Any thread, no lock. */
void hk_heap_announce(hk_slab_t *slab);

/* Unlocks the heap, and then gives the slabs that have retired to the pool. */
void hk_heap_leave(hk_heap_t *heap);
