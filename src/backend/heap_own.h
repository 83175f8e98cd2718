/* Shared by heap.c and heap_give.c. */
#pragma once

#include "backend/heap.h"

void hk_heap_count_locked(hk_heap_t *heap, hk_heap_counter_t counter, unsigned n);

/* `n` more of the slab's local bits are set: updates its free count and list, and retires it or
 * notes it as empty. The heap is locked and owns the slab. */
void hk_heap_gained(hk_heap_t *heap, hk_slab_t *slab, unsigned n);

extern _Atomic(hk_heap_t *) hk_heap_all; /* atomic: every heap; push only */

/* Blocks freed by hk_heap_give_remote(), which holds no heap's lock and so counts in none. atomic:
 * any thread */
extern _Atomic uint64_t hk_heap_given_beside;

/* Makes sure that the slab is on its owner's pending list, or will be. `held`: the caller holds the
 * slab, i.e. it is the one that set `pending`, or took the slab off a list. Any thread, no lock. */
void hk_heap_announce(hk_slab_t *slab, bool held);

/* Unlocks the heap, then gives its retired slabs to the pool. */
void hk_heap_leave(hk_heap_t *heap);
