/* Shared by region.c and region_cache.c. */
#pragma once

#include "backend/pagemap.h"
#include "backend/region.h"
#include "os/os.h"

enum { HK_REGION_GATHERED = 32 };

/* Bytes handed out before the system is first asked whether memory is bounded. */
#define HK_REGION_FIRST_LOOK (4 * HK_MIB)

/* Calls left until moving pages, or cutting mappings, is tried again (backend/mappings.h). */
extern atomic_uint hk_region_no_moves, hk_region_no_cuts;

HK_INLINE bool hk_range_is_exact(const hk_range_t *r) { return r->bytes % HK_UNIT != 0; }
HK_INLINE char *hk_range_end(const hk_range_t *r) { return r->start + r->bytes; }

/* Checks a range as it is handed out and taken back: whole OS pages, from a unit's start on. */
HK_WALKER HK_INLINE void hk_range_is_valid(hk_range_t r) {
    hk_assert(hk_is_aligned((uintptr_t)r.start, HK_UNIT) && r.bytes != 0);
    hk_assert(hk_is_aligned(r.bytes, hk_os_page_size()));
    hk_assert((uintptr_t)r.start + r.bytes > (uintptr_t)r.start);
}

/* Takes an aligned range out of the smallest free range in which it fits. False: there is none. */
bool hk_region_fit(size_t bytes, size_t align, hk_range_t *range);

/* Takes `bytes` bytes from `start` on, if a free range begins there and is that long. */
bool hk_region_cut_at(const char *start, size_t bytes);

/* Takes free ranges, the largest first, that together hold at most `bytes`; returns how many. */
unsigned hk_region_gather(size_t bytes, hk_range_t *out);

/* `less` bytes are no longer handed out, and `more` others are. */
void hk_region_change_live(size_t less, size_t more);

/* Puts a range into the cache, then unmaps what exceeds the bound. */
void hk_region_keep(hk_range_t range);

/* Unmaps a range. If that is refused, gives up its pages and keeps its addresses in the cache for
 * reuse, or leaks the addresses if there is no slot. False: refused. */
bool hk_region_unmap(hk_range_t range);

/* Waits, for a moment at most, until no other thread is giving back ranges that it has taken out of
 * the cache. True if one was. The caller holds no lock that such a thread may want. */
bool hk_region_await(void);
