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
 * Bound: HAKMEM_REGION_CACHE_MB or, if more, a quarter of what is handed out; plus what the process
 * has shown that it takes again (backend/breath.h), unless the option is 0, memory is bounded, a
 * limit is set, or nothing is given back later. What exceeds the bound is unmapped at once, or by
 * the next frees. hk_region_trim() empties the cache. While mappings are short (backend/mappings.h)
 * no pages are moved and no mapping is cut: ranges are reused whole, or stay in the cache without
 * their pages, and fresh ones lie side by side.
 *
 * If address space or memory turns out to be bounded for this process (RLIMIT_AS, RLIMIT_DATA,
 * strict accounting of commitments), or a limit is near (backend/limit.h), rounding to units would
 * waste it: a range may then be *exact*, of whole OS pages, mapped for one block and unmapped with
 * it. */
#pragma once

#include "base/base.h"

/* A range of address space; start is a multiple of a unit, and so is bytes unless it is exact. */
typedef struct {
    char *start;
    size_t bytes;
    bool mixed; /* may be several kernel mappings, which older kernels move only one at a time */
} hk_range_t;

/* Takes `bytes` aligned to `align`, both multiples of a unit, or an exact range. The first `dense`
 * bytes, whole units, will be touched all over: huge pages are asked for in their fresh part, and
 * nowhere else. Probably only the first `front` bytes, whole units or all, will be touched: that
 * many bytes of cached pages are moved there, and none behind them. The first *used bytes may hold
 * old data (0 for an exact range); the rest reads as zero. Page-map entries of the range can be
 * set. False: out of memory, nothing taken. */
bool hk_region_take_front(size_t bytes, size_t align, size_t dense, size_t front, hk_range_t *range,
                          size_t *used);
HK_INLINE bool hk_region_take(size_t bytes, size_t align, size_t dense, hk_range_t *range,
                              size_t *used) {
    return hk_region_take_front(bytes, align, dense, bytes, range, used);
}

/* Whether pages are moved at present; if not, a later request can use only whole ranges. Any
 * thread, no lock. */
bool hk_region_moves(void);

/* Whether memory is bounded for this process. Once so, always so. */
extern atomic_bool hk_region_bounded;
HK_INLINE bool hk_region_is_bounded(void) { return hk_load_relaxed(&hk_region_bounded); }

/* Reads the limits at the process's start. Called once, after hk_map_init() and before any other
 * function here. */
void hk_region_init(void);

/* Called when the process has set its limit on data (RLIMIT_DATA). */
void hk_region_read_data_limit(void);

/* From now on fresh ranges of one unit lie at random places, derived from `seed`, with no range of
 * ours right beside them. */
void hk_region_scatter(uint64_t seed);

/* In a fork's child: goes on from a seed of its own. */
void hk_region_forked(uint64_t seed);

/* Whether ranges are scattered; and a number from the same random sequence, below `end`. */
bool hk_region_scatters(void);
uint32_t hk_region_chance(uint32_t end);

/* Ends the scattering for good; for some time no pages are moved and no mapping is cut. */
void hk_region_save_mappings(void);

/* Finds out whether memory is bounded, by asking the system for plenty. True: it is, and was not
 * known to be. Due when what is handed out has doubled since the last time, or a limit is near;
 * callers check hk_region_look_is_due now and then. Any thread, no lock. */
bool hk_region_look_at_bounds(size_t wanted);
extern atomic_bool hk_region_look_is_due;

/* Whether the system would grant that many addresses, and plenty. Any thread, no lock. */
bool hk_region_grants_addresses(size_t wanted);

/* Gives a range back, or a part of one. Its kinds become FREE if it is cached, FOREIGN if it is
 * unmapped. */
void hk_region_give(hk_range_t range);

/* The same, but all of it goes back to the system. */
void hk_region_return(hk_range_t range);

/* Enlarges a range in place, if what lies behind it is free in the cache. An exact range can change
 * to any multiple of the OS page, also to less than before. */
bool hk_region_extend(hk_range_t *range, size_t new_bytes);

/* Moves a range's pages to a larger place: of new_bytes or, if that cannot be had, of `wanted`.
 * Behind them come cached pages, up to `wanted`. The caller clears the kinds of the old place
 * before the call, and can set page-map entries of the new place after it. False: nothing has
 * changed. */
bool hk_region_move(hk_range_t *range, size_t wanted, size_t new_bytes);

/* Unmaps free ranges until at least `most` bytes are unmapped or none is left. Returns the bytes,
 * and adds the number of calls to *calls. */
size_t hk_region_purge(size_t most, unsigned *calls);

/* Unmaps all free ranges; returns the bytes. */
size_t hk_region_trim(void);

/* Whether the cache holds more than is handed out, and more than its bound without the breath. Any
 * thread, no lock. */
bool hk_region_is_mostly_free(void);

/* Bytes handed out, and bytes in the cache. Any thread, no lock. */
size_t hk_region_live(void);
size_t hk_region_cached(void);
