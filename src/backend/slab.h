/* What is done with the bitmaps of one slab, by whoever holds its owner's lock: taking blocks, and
 * claiming the OS pages on which no block lives, to give their memory back.
 *
 * OS pages are numbered from the slab's start. A page is *free* when each block that overlaps it
 * is; *clean* when it has no memory (or memory the system may take): it has been purged or never
 * touched, and no block on it handed out since; *seen* when it was free and not clean at the last
 * look, and no block on it handed out since. */
#pragma once

#include "backend/superslab.h"
#include "os/os.h"

/* Writes `n` of the slab's free blocks downwards from `end`, the lowest address first; those on
 * clean pages come last. The slab has as many. */
void hk_slab_take(hk_slab_t *slab, void **end, unsigned n);

/* The pages of which all blocks are free by these bits, those behind the last block too. */
uint64_t hk_slab_free_pages(const hk_slab_t *slab, const uint64_t *bits);

/* Takes the free blocks on free pages that are not clean out of the bitmap, so that nobody gets
 * them while the pages are purged; returns the pages. Of those that are to be aged, and were not seen before, it
 * says that they are now. */
uint64_t hk_slab_claim(hk_slab_t *slab, hk_claim_t which);

/* Puts the blocks of claimed pages back; returns how many, which are not yet counted in `free`.
 * `purged` says which of them are clean now, `lazily` that the system takes their memory when it
 * likes. */
unsigned hk_slab_unclaim(hk_slab_t *slab, uint64_t pages, uint64_t purged, bool lazily);

/* The pages of a slab that has just been carved: one bit per slice says whether it has no memory,
 * one whether what it has may be taken, one whether either is since it was given back, and a bit for each page of the other
 * slices whether that was. */
void hk_slab_mark_slices(hk_slab_t *slab, uint32_t clean, uint32_t lazy, uint32_t purged,
                         const uint16_t *gone);

/* The pages that were given back, for certain, and are without memory. */
HK_INLINE uint64_t hk_slab_gone(const hk_slab_t *slab) {
    return slab->purged & ~hk_load_relaxed(&slab->lazy);
}

/* Writes the runs of 1 in a mask of pages of so many bytes each, or of slices, from `base` on, as address ranges;
 * returns how many, at most 32. */
unsigned hk_mask_ranges(char *base, uint64_t mask, size_t bytes, hk_os_range_t *ranges);

/* An upper bound on the bytes of free pages that are not clean. Any thread, as the two below. */
size_t hk_slab_dirty_bytes(const hk_slab_t *slab);

/* How many of those `dirty` bytes lie on free pages if the free blocks are spread by chance. */
size_t hk_slab_likely_bytes(const hk_slab_t *slab, size_t dirty);

/* The bytes of clean pages. */
size_t hk_slab_clean_bytes(const hk_slab_t *slab);

void hk_slab_is_valid(const hk_slab_t *slab);
