/* How much is in use, for tests that check that all of it comes back. */
#pragma once

#include <unistd.h>

#include "backend/purge.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "front/boundary.h"
#include "pool_stats.h"

/* Bytes of small and large blocks, and of huge ones. */
static inline size_t in_use_now(void) {
    hk_lock(&hk_purge_lock); /* blocks that a purge has claimed do not count as free */
    pool_stats_t pool = pool_stats();
    size_t bytes = pool.active + hk_region_live() - pool.mapped;
    hk_unlock(&hk_purge_lock);
    return bytes;
}

/* The least in_use_now() over up to `trims` trims; stops early at `expected`. One trim may not be
 * enough: it skips a locked heap, and the purger's thread may hold blocks for a moment. */
static inline size_t in_use_settled(size_t expected, unsigned trims) {
    size_t least = SIZE_MAX;
    for (unsigned i = 0; i < trims && least > expected; i++) {
        if (i != 0)
            usleep(1000);
        hk_trim();
        least = hk_min(least, in_use_now());
    }
    return least;
}
