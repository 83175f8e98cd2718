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
 * Bound: HAKMEM_REGION_CACHE_MB, or a quarter of what is handed out where that is more, and, unless the option is 0, memory is
 * bounded, or nothing is given back later, what the process has shown that it takes again (backend/breath.h). What does not fit is unmapped
 * at once, or by the next frees. hk_region_trim() empties it. Where mappings are short
 * (backend/mappings.h) no pages are moved and no mapping is cut: ranges are used again whole, or stay in
 * the cache without their pages, and fresh ones lie side by side.
 *
 * Where address space or memory turns out to be bounded for this process (RLIMIT_AS, RLIMIT_DATA,
 * strict accounting of commitments), or a limit is near (backend/limit.h), rounding to units would
 * waste it: a range may then be *exact*, of whole OS pages, mapped for one block and unmapped with it. */
#pragma once

#include "base/base.h"

/* A range of address space; start is a multiple of a unit, and so is bytes unless it is exact. */
typedef struct {
    char *start;
    size_t bytes;
    bool mixed; /* may be several kernel mappings, which older kernels move only one by one */
} hk_range_t;

/* Takes `bytes` aligned to `align`, both multiples of a unit, or an exact range. The first `dense` of them, whole units too,
 * will be touched all over: huge pages are asked for in what is fresh of these, and of no others. The
 * first *used bytes may hold old data, none of an exact range, the rest reads as zero. Page-map entries of the range can be
 * set. False: out of memory, nothing taken. */
bool hk_region_take(size_t bytes, size_t align, size_t dense, hk_range_t *range, size_t *used);

/* The same where probably only the first `front` bytes, whole units, will be touched: as many of cached pages are moved there, and
 * none lie behind them. */
bool hk_region_take_front(size_t bytes, size_t align, size_t dense, size_t front, hk_range_t *range,
                          size_t *used);

/* Whether pages are moved; where they are not, whole ranges are what a later request can use. Any thread, no lock. */
bool hk_region_moves(void);

/* Whether memory is bounded for this process. Once so, always so. */
extern atomic_bool hk_region_bounded;
HK_INLINE bool hk_region_is_bounded(void) { return hk_load_relaxed(&hk_region_bounded); }

/* Called once, after hk_map_init() and before any other function: the limits of the process's
 * start. */
void hk_region_init(void);

/* The process has set the limit on its data (RLIMIT_DATA). */
void hk_region_read_data_limit(void);

/* From now on fresh ranges of a unit lie at places of chance, found by this number, with nothing of
 * ours on either side. */
void hk_region_scatter(uint64_t seed);

/* In a fork's child: by this number from now on. */
void hk_region_forked(uint64_t seed);

/* Whether they do; and a number of the same chance, below `end`. */
bool hk_region_scatters(void);
uint32_t hk_region_chance(uint32_t end);

/* From now on nothing is scattered; for some time, nothing is moved or cut. */
void hk_region_save_mappings(void);

/* Finds out, by asking the system for plenty; returns whether this is news. Due whenever what is
 * handed out has doubled, which the caller looks at now and then. Any thread, no lock. */
bool hk_region_look_at_bounds(size_t wanted);
extern atomic_bool hk_region_look_is_due;

/* Whether the system has as many addresses. Any thread, no lock. */
bool hk_region_grants_addresses(size_t wanted);

/* Gives a range back, or a part of one. Its kind bytes become FREE where it is kept and FOREIGN
 * where it is unmapped. */
void hk_region_give(hk_range_t range);

/* The same, but all of it goes back to the system. */
void hk_region_return(hk_range_t range);

/* Enlarges a range to new_bytes where it is, if what lies behind it is free. Of an exact range
 * new_bytes may be any multiple of the OS page, and less than before. */
bool hk_region_extend(hk_range_t *range, size_t new_bytes);

/* Enlarges a range to new_bytes elsewhere, of which so many are wanted now, or to those where more cannot be had: moves its pages, and as many
 * cached ones behind them as it grows by. The kind bytes of the old place are cleared before the call;
 * page-map entries of the new place can be set after it. False: nothing has changed. */
bool hk_region_move(hk_range_t *range, size_t wanted, size_t new_bytes);

/* Unmaps free ranges until `most` bytes have been or none is left; returns the bytes, and adds the
 * calls made. */
size_t hk_region_purge(size_t most, unsigned *calls);

/* Unmaps all that is free; returns the bytes. */
size_t hk_region_trim(void);

/* Whether more is kept than is handed out, and than the option says: it is the process's breath, or about to go. Any thread, no lock. */
bool hk_region_is_mostly_free(void);

/* Bytes handed out now, and bytes kept for reuse. Any thread, no lock. */
size_t hk_region_live(void);
size_t hk_region_cached(void);
