/* What region.c needs of the cache of freed ranges. */
#pragma once

#include "backend/pagemap.h"
#include "backend/region.h"
#include "os/os.h"

enum { HK_REGION_GATHERED = 32 };

/* What a process must have before the system is asked for the first time. */
#define HK_REGION_FIRST_LOOK (4 * HK_MIB)

/* Whether moving, or cutting, may be tried (backend/mappings.h). */
extern atomic_uint hk_region_no_moves, hk_region_no_cuts;

HK_INLINE bool hk_range_is_exact(const hk_range_t *r) { return r->bytes % HK_UNIT != 0; }
HK_INLINE char *hk_range_end(const hk_range_t *r) { return r->start + r->bytes; }

/* A range as it is handed out and taken back: of OS pages, from a unit's start on. */
HK_WALKER HK_INLINE void hk_range_is_valid(hk_range_t r) {
    hk_assert(hk_is_aligned((uintptr_t)r.start, HK_UNIT) && r.bytes != 0);
    hk_assert(hk_is_aligned(r.bytes, hk_os_page_size()));
    hk_assert((uintptr_t)r.start + r.bytes > (uintptr_t)r.start);
}

/* Takes an aligned range out of the smallest free one in which it fits. False: there is none. */
bool hk_region_fit(size_t bytes, size_t align, hk_range_t *range);

/* Takes what starts at `start`, if so much is free there. */
bool hk_region_cut_at(const char *start, size_t bytes);

/* Takes free ranges, the largest first, that together hold at most `bytes`; returns how many. */
unsigned hk_region_gather(size_t bytes, hk_range_t *out);

/* So many bytes are handed out no more, and so many others now. */
void hk_region_change_live(size_t less, size_t more);

/* Puts a range into the cache, and unmaps what is then over the bound. */
void hk_region_keep(hk_range_t range);

/* Unmaps a range or, where that is refused, gives up its pages and keeps its addresses for reuse.
 * (If that is not possible either they are lost, and nothing else.) False: refused. */
bool hk_region_unmap(hk_range_t range);
