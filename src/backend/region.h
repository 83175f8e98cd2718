/* Regions: address ranges for superslabs and huge blocks, and a bounded cache of freed ones.
 *
 * The cache keeps the *pages* of freed ranges, whatever their sizes: a request that no cached range
 * fits is put together from smaller ones by moving their pages (mremap) behind one another, so memory
 * that was faulted in once is not faulted in again because the sizes differ.
 *
 * Bound: hk_region_cache_limit() bytes, or a quarter of what is handed out where that is more. What
 * does not fit is unmapped at once. hk_region_trim() empties it.
 *
 * A *piece* is a range that lies in one kernel mapping, so that mremap takes it on every kernel. */
#ifndef HK_BACKEND_REGION_H
#define HK_BACKEND_REGION_H

#include "base/base.h"

enum { HK_REGION_PIECES = 8 };

/* A range as taken. bytes[0..pieces) sum up to the size asked for; the first `used` bytes may hold old
 * data, the rest reads as zero. */
typedef struct {
    char *start;
    size_t used;
    unsigned pieces;
    size_t bytes[HK_REGION_PIECES];
} hk_range_t;

/* Takes `bytes` (a multiple of a slice) aligned to `align` (at least a granule). `most_pieces` 1 asks
 * for a range that can be given back as one piece. Its page-map entries can be set. False: out of
 * memory, nothing taken. Takes no lock while calling the system. */
bool hk_region_take(size_t bytes, size_t align, unsigned most_pieces, hk_range_t *range);

/* Gives one piece back. Its kind bytes become FREE where it is kept and FOREIGN where it is unmapped. */
void hk_region_give(char *start, size_t bytes);

/* Enlarges a range of one piece to `new_bytes` by moving its pages (not their contents) to a new place;
 * the rest reads as zero. The kind bytes of the old place are cleared before the call; page-map
 * entries of the new place can be set after it. False: nothing has changed. */
bool hk_region_move(hk_range_t *range, size_t new_bytes, size_t align);

/* Unmaps all that is cached; returns the bytes. */
size_t hk_region_trim(void);

void hk_region_set_cache_limit(size_t bytes);

typedef struct {
    size_t live;   /* bytes handed out */
    size_t cached; /* bytes kept for reuse */
    size_t maps;   /* ranges taken from the system so far */
    size_t unmaps; /* ranges given back so far */
} hk_region_stats_t;
hk_region_stats_t hk_region_stats(void);

/* For fork. */
void hk_region_lock(void);
void hk_region_unlock(void);

#endif
