/* Operations on the bitmaps of one slab, under the owning heap's lock: taking blocks, and claiming
 * OS pages without live blocks so that their memory can be given back.
 *
 * OS pages are numbered from the slab's start. A page is *free* if all blocks that overlap it are
 * free. It is *clean* if it has no memory, or memory the system may take at any time: it was purged
 * or never touched, and since then no block on it was handed out. It is *seen* if it was free and
 * not clean at the last look, and since then no block on it was handed out. */
#pragma once

#include "backend/superslab.h"
#include "os/os.h"

/* Takes `n` free blocks and writes their addresses downwards from `end`, the lowest address first.
 * Takes blocks on clean pages only after all others. The slab has at least n free blocks. */
void hk_slab_take(hk_slab_t *slab, void **end, unsigned n);

/* The pages on which all blocks are free according to `bits`, pages behind the last block
 * included. */
uint64_t hk_slab_free_pages(const hk_slab_t *slab, const uint64_t *bits);

/* Claims the slab's free pages that are not clean: clears the free bits of all blocks on them, so
 * that no thread gets one while the pages are purged. Returns the pages. HK_CLAIM_AGED claims only
 * pages that are seen, and marks the others as seen. */
uint64_t hk_slab_claim(hk_slab_t *slab, hk_claim_t which);

/* Sets the free bits of all blocks on claimed pages again; returns how many, which the caller adds
 * to `free`. `purged`: the pages that are clean now; `lazily`: the system takes their memory when
 * it likes. */
unsigned hk_slab_unclaim(hk_slab_t *slab, uint64_t pages, uint64_t purged, bool lazily);

/* Sets the marks of a slab that has just been carved. A bit for each slice: `clean`, it has no
 * memory; `lazy`, the system may take its memory; `purged`, it is one of these because it was given
 * back. gone[i] has a bit for each page of slice i, of those not in `purged`, that was given
 * back. */
void hk_slab_mark_slices(hk_slab_t *slab, uint32_t clean, uint32_t lazy, uint32_t purged,
                         const uint16_t *gone);

/* Writes each run of 1s in `mask` as an address range; a bit stands for `bytes` bytes, from `base`
 * on. Returns how many ranges, at most 32. */
unsigned hk_mask_ranges(char *base, uint64_t mask, size_t bytes, hk_os_range_t *ranges);

/* An upper bound on the bytes of free pages that are not clean. This and the two below: any thread,
 * without a lock. */
size_t hk_slab_dirty_bytes(const hk_slab_t *slab);

/* An estimate of how many of those `dirty` bytes lie on free pages, if the free blocks are spread
 * at random. */
size_t hk_slab_likely_bytes(const hk_slab_t *slab, size_t dirty);

/* Bytes of clean pages. */
size_t hk_slab_clean_bytes(const hk_slab_t *slab);

void hk_slab_is_valid(const hk_slab_t *slab);
