/* What memory is used for: walks over all slabs, and over all address space that is ours.
 *
 * Nothing is stopped for a walk, and only one superslab is locked at a time: of a process in which
 * no other thread allocates or frees the figures are exact; otherwise each is of a moment of its
 * own. Nothing is allocated. Called with no lock held. */
#pragma once

#include "backend/sizeclass.h"
#include "hakmem/hakmem.h"

/* Fills in the bands of zeroed statistics and what lies in address space, from the allocator's own records. `held`: the
 * blocks of each class that wait in magazines. No system call. */
void hk_usage_count(hak_stats_t *stats, const size_t held[HK_CLASS_COUNT]);

/* Then what the system says about that address space, metadata included: what of it is resident, and of that dirty and
 * lazy, and what is retained. One system call for each 2 MiB, and one for each slab with free OS pages.
 * Between any two of them `goes_on` is asked, with no lock held; false: it does not, and nothing is filled in. */
bool hk_usage_measure(hak_stats_t *stats, bool (*goes_on)(void *), void *argument);
