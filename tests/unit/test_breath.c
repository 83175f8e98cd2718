/* The breath of the region cache: for a process that allocates and frees in rounds, the cache must
 * keep what the next round takes again, but no more than was once in use, and nothing beyond its
 * bound if the options or a limit forbid it. */
#include "backend/breath.h"

#include "backend/limit.h"
#include "backend/region.h"
#include "base/counters.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"

enum { RANGES = 60, UNITS = 2 };
#define ROUND (RANGES * UNITS * HK_UNIT)
#define BOUND (64 * HK_MIB)

static void start(void) {
    hk_region_trim();
    hk_breath_forget();
    CHECK_EQ(hk_breath_now(), 0);
}

/* Takes and frees one round of ranges. Fresh bytes are counted as touched, as a block's would be;
 * returns them. */
static size_t breathe(void) {
    hk_range_t ranges[RANGES];
    size_t fresh = 0;
    for (unsigned i = 0; i < RANGES; i++) {
        size_t used;
        CHECK(hk_region_take(UNITS * HK_UNIT, HK_UNIT, 0, &ranges[i], &used));
        fresh += ranges[i].bytes - used;
        hk_count(touched, ranges[i].bytes - used);
    }
    for (unsigned i = 0; i < RANGES; i++)
        hk_region_give(ranges[i]);
    return fresh;
}

/* Two rounds teach the breath. Fails if a later round needs more than a little fresh memory. */
static void kept_from_the_third_round_on(void) {
    start();
    for (unsigned round = 0; round < 3; round++) {
        CHECK(hk_region_cached() <= BOUND);
        CHECK(breathe() >= ROUND - BOUND);
    }
    for (unsigned round = 0; round < 100; round++) {
        CHECK(hk_region_cached() <= ROUND / 16 * 15);
        CHECK(breathe() <= ROUND / 16 + UNITS * HK_UNIT);
    }
    CHECK(hk_breath_now() > BOUND && hk_breath_now() <= ROUND);
}

static void has_none(void *unused) {
    (void)unused;
    CHECK_EQ(hk_breath_now(), 0);
}

/* A fork's child starts without a breath: it has taken nothing again yet. */
static void not_the_parents(void) {
    static child_t child;
    hak_free(hak_malloc(1)); /* installs the fork handlers */
    CHECK(hk_breath_now() != 0);
    child_run(&child, has_none, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}

/* Fails if the cache exceeds its bound or a breath is learned. */
static void not_kept(void) {
    for (unsigned round = 0; round < 6; round++) {
        breathe();
        CHECK(hk_region_cached() <= BOUND);
    }
    CHECK_EQ(hk_breath_now(), 0);
}

/* Without purging there is no breath, nor without a cache, nor near a limit. */
static void not_where_nothing_comes_back(void) {
    start();
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    not_kept();
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_DONTNEED);
}

static void not_without_a_cache(void) {
    start();
    hk_config.region_cache_mb = 0;
    not_kept();
    CHECK_EQ(hk_region_cached(), 0);
    hk_config.region_cache_mb = BOUND / HK_MIB;
}

static void not_near_a_limit(void) {
    start();
    hk_limit_set(16 * ROUND);
    not_kept();
    hk_limit_set(0);
}

int main(void) {
    hk_config.region_cache_mb = BOUND / HK_MIB;
    kept_from_the_third_round_on();
    not_the_parents();
    not_where_nothing_comes_back();
    not_without_a_cache();
    not_near_a_limit();
    return 0;
}
