/* Reads all statistics at once, and checks the equations that hold at any time. */
#pragma once

#include "check.h"
#include "hakmem/hakmem.h"

static inline hak_stats_t now(void) {
    hak_stats_t stats = {.size = sizeof stats};
    CHECK_EQ(hak_stats_get(&stats), 0);
    CHECK_EQ(stats.size, sizeof stats);
    CHECK_EQ(stats.version, 2);
    return stats;
}

static inline void check_equations(const hak_stats_t *s) {
    hak_stats_band_t sum = {0};
    for (unsigned i = 0; i < HAK_STATS_BANDS; i++) {
        const hak_stats_band_t *band = &s->bands[i];
        CHECK_EQ(band->allocated + band->magazines, band->active);
        CHECK(band->active + band->free <= band->carved);
        CHECK(band->remote <= band->free);
        sum.allocated += band->allocated;
        sum.magazines += band->magazines;
        sum.active += band->active;
        sum.free += band->free;
        sum.remote += band->remote;
        sum.carved += band->carved;
    }
    CHECK_EQ(s->allocated, sum.allocated);
    CHECK_EQ(s->magazines, sum.magazines);
    CHECK_EQ(s->active, sum.active);
    CHECK_EQ(s->free, sum.free);
    CHECK_EQ(s->remote, sum.remote);
    CHECK_EQ(s->carved, sum.carved);
    CHECK(s->resident <= s->mapped);
    CHECK_EQ(s->resident + s->retained, s->mapped);
    CHECK(s->dirty + s->lazy <= s->resident);
    CHECK(s->mapped <= s->peak_mapped);
    uint64_t calls = 0;
#define HK_CALL_KIND(kind, field, doc) calls += s->field;
#include "base/counters.def"
    CHECK_EQ(s->calls, calls);
}

/* A block with memory on each of its OS pages. */
static inline void *touched(size_t n) {
    char *p = hak_malloc(n);
    CHECK(p != NULL);
    for (size_t at = 0; at < n; at += 4096)
        p[at] = 1;
    return p;
}
