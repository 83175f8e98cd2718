/* How much of huge blocks is written to: freed blocks predict it for the next ones of their size. If blocks are filled
 * only in part, cached pages go to the part that will be written, and do not stay behind it. */
#include "backend/written.h"

#include "backend/advise.h"
#include "backend/region_own.h"
#include "base/counters.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "stats_now.h"

enum { UNITS = 4 };
#define BYTES (UNITS * HK_UNIT)

/* What hk_written_of() says of a block of `units` whose first `written` bytes were written to. */
static size_t seen(size_t units, size_t written, size_t clean) {
    char *block = hk_os_map(units * HK_UNIT, HK_UNIT);
    CHECK(block != NULL);
    hk_advise(block, units * HK_UNIT, HK_NO_HUGE_PAGES);
    for (size_t at = 0; at < written; at += hk_os_page_size())
        block[at] = 1;
    const size_t bytes = hk_written_of(block, units * HK_UNIT, clean);
    hk_os_unmap(block, units * HK_UNIT);
    return bytes;
}

static void what_is_seen(void) {
    CHECK_EQ(seen(UNITS, BYTES, 0), BYTES);
    CHECK_EQ(seen(UNITS, BYTES, HK_UNIT), BYTES);
    CHECK_EQ(seen(UNITS, HK_MIB, 0), HK_UNIT);
    CHECK_EQ(seen(UNITS, 5 * HK_MIB, 0), 3 * HK_UNIT);
    CHECK_EQ(seen(UNITS, HK_MIB, 2 * HK_UNIT), 2 * HK_UNIT); /* its cached pages are unknown */
    CHECK_EQ(seen(UNITS, 5 * HK_MIB, 2 * HK_UNIT), 3 * HK_UNIT);
    CHECK_EQ(seen(17, 0, 16 * HK_UNIT), 17 * HK_UNIT); /* under a sixteenth could be seen */
}

static void what_is_expected(void) {
    const size_t other = 7 * HK_UNIT; /* a size not noted yet */
    CHECK_EQ(hk_written_usually(other), other);
    seen(7, HK_MIB, 0);
    CHECK_EQ(hk_written_usually(other), other);
    seen(7, HK_MIB, 0);
    CHECK_EQ(hk_written_usually(other), HK_UNIT);
    seen(7, other, 0); /* more is believed at once */
    CHECK_EQ(hk_written_usually(other), other);
    for (unsigned i = 0; i < 12; i++)
        seen(7, HK_MIB, 0);
    CHECK_EQ(hk_written_usually(other), other);
    for (unsigned i = 0; i < 8; i++) /* and less only after many blocks */
        seen(7, HK_MIB, 0);
    CHECK_EQ(hk_written_usually(other), HK_UNIT);
    for (unsigned i = 0; i < 16; i++)
        seen(7, hk_os_page_size(), 0);
    CHECK_EQ(hk_written_usually(other), other); /* too little to be worth moving */
}

/* If the latest requests are all for one size, any range will do, and all of it may keep its pages. */
static void one_size(void) {
    seen(9, HK_MIB, 0);
    seen(9, HK_MIB, 0);
    CHECK_EQ(hk_written_usually(9 * HK_UNIT), HK_UNIT);
    for (unsigned i = 0; i < 9; i++)
        hk_written_asked(9 * HK_UNIT);
    CHECK_EQ(hk_written_usually(9 * HK_UNIT),
             9 * HK_UNIT); /* the range of the block before will do */
    hk_written_asked(3 * HK_UNIT);
    CHECK_EQ(hk_written_usually(9 * HK_UNIT), HK_UNIT);
}

/* Blocks of 2 to 10 MiB are replaced at random, 1 MiB of each written to. Fails if the blocks also keep the pages of the
 * ranges that they reuse: about three times as much. */
static void a_process(void) {
    enum { BLOCKS = 60, STEPS = 2000 };
    static char *blocks[BLOCKS];
    for (uint32_t i = 0, x = 1; i < STEPS; i++) {
        x = x * 1664525u + 1013904223u;
        char **block = &blocks[(x >> 8) % BLOCKS];
        hak_free(*block);
        *block = hak_malloc(HK_UNIT + 1 + (x >> 4) * 2654435761u % (8 * HK_MIB));
        CHECK(*block != NULL);
        for (size_t at = 0; at < HK_MIB; at += hk_os_page_size())
            (*block)[at] = 1;
    }
    CHECK(now().resident <= BLOCKS * HK_MIB * 3 / 2);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Allocates and frees blocks of two sizes in turn, and writes to 1 MiB of each. Returns how many ranges were fresh. */
static uint64_t mapped_in_turn(unsigned times) {
    const uint64_t before = hk_counted(region_maps);
    for (unsigned i = 0; i < times; i++) {
        char *block = hak_malloc((i % 2 == 0 ? 11 : 13) * HK_UNIT);
        CHECK(block != NULL);
        memset(block, 1, HK_MIB);
        hak_free(block);
    }
    return hk_counted(region_maps) - before;
}

/* While pages are moved, each block gets a fresh range with the written pages moved to it; while they are not, ranges
 * are reused whole. */
static void where_nothing_moves(void) {
    enum { TIMES = 20, CALLS = 1000000 };
    for (size_t units = 11; units <= 13; units += 2)
        seen(units, HK_MIB, 0), seen(units, HK_MIB, 0);
    if (HK_HOSTILE)
        return; /* its cache is smaller than these blocks */
    hak_trim();
    CHECK_EQ(mapped_in_turn(TIMES), TIMES); /* with the pages of the block before */
    hk_store_relaxed(&hk_region_no_moves, (unsigned)CALLS);
    hk_store_relaxed(&hk_config.lean, 0u); /* else a range free for long would be given back */
    CHECK(mapped_in_turn(TIMES) <= 2);     /* the first of each size */
    hk_store_relaxed(&hk_region_no_moves, 0u);
}

int main(void) {
    a_process(); /* first: the others note sizes that are not its own */
    what_is_seen();
    what_is_expected();
    one_size();
    where_nothing_moves();
    return 0;
}
