/* Regions: address ranges for superslabs and huge blocks, in units of 2 MiB, and a bounded cache of
 * freed ones.
 *
 * The cache keeps the *pages* of freed ranges, whatever their sizes: a request that no free range
 * can hold is put together from several by moving their pages (mremap) behind one another. Memory
 * that was faulted in once is not faulted in again because sizes differ, and the cache does not
 * fragment.
 *
 * All boundaries between kernel mappings lie on units, so each unit can be moved on its own, on
 * every kernel; whole units also move by their page-table page, or as one huge page.
 *
 * Bound: HAKMEM_REGION_CACHE_MB, or a quarter of what is handed out where that is more. What
 * does not fit is unmapped at once. hk_region_trim() empties it. */
#ifndef HK_BACKEND_REGION_H
#define HK_BACKEND_REGION_H

#include "base/base.h"

/* A range of address space; start and bytes are multiples of a unit. */
typedef struct {
    char *start;
    size_t bytes;
    bool mixed; /* may be several kernel mappings, which older kernels move only one by one */
} hk_range_t;

/* Takes `bytes` aligned to `align`, both multiples of a unit; huge pages are asked for in what is
 * fresh of it where `dense` says that it will be touched all over. The first *used bytes may hold
 * old data, the rest reads as zero. Page-map entries of the range can be set. False: out of memory,
 * nothing taken. */
bool hk_region_take(size_t bytes, size_t align, bool dense, hk_range_t *range, size_t *used);

/* Gives a range back, or a part of one. Its kind bytes become FREE where it is kept and FOREIGN
 * where it is unmapped. */
void hk_region_give(hk_range_t range);

/* Enlarges a range to new_bytes where it is, if what lies behind it is free. */
bool hk_region_extend(hk_range_t *range, size_t new_bytes);

/* Enlarges a range to new_bytes elsewhere: moves its pages, or its contents where the kernel will
 * not. The rest reads as zero. The kind bytes of the old place are cleared before the call;
 * page-map entries of the new place can be set after it. False: nothing has changed. */
bool hk_region_move(hk_range_t *range, size_t new_bytes);

/* Unmaps free ranges until `most` bytes have been or none is left; returns the bytes, and adds the
 * calls made. */
size_t hk_region_purge(size_t most, unsigned *calls);

/* Unmaps all that is free; returns the bytes. */
size_t hk_region_trim(void);

/* Bytes handed out now, and bytes kept for reuse. Any thread, no lock. */
size_t hk_region_live(void);
size_t hk_region_cached(void);

typedef struct {
    size_t live;   /* bytes handed out */
    size_t cached; /* bytes kept for reuse */
    size_t peak;   /* the most bytes of both at once so far */
    size_t maps;   /* ranges taken from the system so far */
    size_t unmaps; /* ranges given back so far */
} hk_region_stats_t;
hk_region_stats_t hk_region_stats(void);

#endif
