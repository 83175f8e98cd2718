/* Takes and gives ranges, and marks their pages, so that a test can tell where each page went. */
#pragma once

#include "backend/breath.h"
#include "backend/region.h"
#include "check.h"
#include "config/config.h"
#include "os/os.h"

static inline bool try_take(size_t units, size_t align, hk_range_t *range, size_t *used) {
    return hk_region_take(units * HK_UNIT, align, units >= 2 ? units * HK_UNIT : 0, range, used);
}

static inline hk_range_t take(size_t units, size_t *used) {
    hk_range_t range;
    CHECK(try_take(units, HK_UNIT, &range, used));
    CHECK_EQ(range.bytes, units * HK_UNIT);
    CHECK_EQ((uintptr_t)range.start % HK_UNIT, 0);
    return range;
}

static inline void give(char *start, size_t units) {
    hk_region_give((hk_range_t){.start = start, .bytes = units * HK_UNIT, .mixed = true});
}

/* mark() writes 16 bytes at the start of each OS page, marked() checks them: enough to tell whose
 * page it is. */
static inline void mark(char *start, size_t bytes, unsigned char with) {
    for (size_t i = 0; i < bytes; i += hk_os_page_size())
        memset(start + i, with, 16);
}

static inline bool marked(const char *start, size_t bytes, unsigned char with) {
    for (size_t i = 0; i < bytes; i += hk_os_page_size())
        for (size_t j = 0; j < 16; j++)
            if ((unsigned char)start[i + j] != with)
                return false;
    return true;
}

static inline void start_empty(size_t limit) {
    hk_region_trim();
    hk_breath_forget();
    hk_config.region_cache_mb = limit / HK_MIB;
    CHECK_EQ(hk_region_cached(), 0);
}
