/* How memory is used: walks over all slabs, and over all of our address space.
 *
 * Nothing is stopped for a walk, and only one superslab is locked at a time: the figures are exact
 * if no other thread allocates or frees meanwhile; else each is of a moment of its own. Nothing is
 * allocated. Called with no lock held. */
#pragma once

#include "backend/sizeclass.h"
#include "hakmem/hakmem.h"

/* Fills in the bands of zeroed statistics and the figures on address space, from the allocator's
 * own records. `held`: the blocks of each class that lie in magazines. No system call. */
void hk_usage_count(hak_stats_t *stats, const size_t held[HK_CLASS_COUNT]);

/* Then fills in what the system says about that address space, metadata included: resident bytes,
 * the dirty and lazy ones of these, and retained ones. One system call for each 2 MiB, and one for
 * each slab with free OS pages. Before each unit and each superslab it calls `goes_on`, with no
 * lock held. False: that returned false, and nothing is filled in. */
bool hk_usage_measure(hak_stats_t *stats, bool (*goes_on)(void *), void *argument);
