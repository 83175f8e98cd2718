/* Whether huge blocks are filled, from what those before hold; and whether huge pages pay, from the times of first touches: dear ones stop the asking, longer each time;
 * cheap ones shorten that; bursts and a system that gives none change nothing. And of fresh ranges few pages are
 * touched. */
#include "backend/hugepages.h"

#include <sys/mman.h>

#include "backend/advise.h"
#include "backend/region.h"
#include "check.h"
#include "os/os.h"

enum { SMALL_NS = 500 };

static uint64_t as_small(void) { return SMALL_NS * (HK_UNIT / hk_os_page_size()); }

/* So many units do without before huge pages are asked for again. */
static unsigned pause_now(void) {
    unsigned n = 0;
    while (!hk_huge_pages_pay()) {
        hk_huge_pages_pass(HK_UNIT);
        n++;
    }
    return n;
}

static void prices(void) {
    hk_huge_pages_note(100 * SMALL_NS, true); /* nothing is known yet: taken for a small page's */
    for (unsigned i = 0; i < 100; i++)
        hk_huge_pages_note(SMALL_NS, false);
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(3 * as_small(), true); /* what it takes now it saves later */
    CHECK_EQ(pause_now(), 0);
    unsigned before = 0;
    for (unsigned i = 0; i < 20; i++) {
        hk_huge_pages_note(6 * as_small(), true);
        unsigned now = pause_now();
        CHECK(now > before || now == 1024);
        before = now;
    }
    CHECK_EQ(before, 1024);
    for (unsigned i = 512; i != 1; i /= 2) {
        hk_huge_pages_note(as_small() / 2, true);
        CHECK_EQ(pause_now(), i);
    }
    hk_huge_pages_note(as_small() / 2, true);
    hk_huge_pages_note(as_small() / 2, true);
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(6 * as_small(), true);
    hk_huge_pages_pass(3 * HK_UNIT);
    CHECK_EQ(pause_now(), 1);           /* of four, from the beginning */
    hk_huge_pages_note(SMALL_NS, true); /* the system had none */
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(1000 * as_small(), false); /* a burst moves the mean by less than half */
    hk_huge_pages_note(6 * as_small(), true);
    CHECK_EQ(pause_now(), 8);
    hk_huge_pages_pass(SIZE_MAX); /* nothing is left to do without */
    CHECK_EQ(pause_now(), 0);
}

static bool is_touched(const char *page) {
    unsigned char resident = 0;
    CHECK_EQ(mincore((void *)page, hk_os_page_size(), &resident), 0);
    return (resident & 1) != 0;
}

static char *fresh(size_t units) {
    char *start = hk_os_map(units * HK_UNIT, HK_UNIT);
    CHECK(start != NULL);
    hk_advise(start, units * HK_UNIT, HK_NO_HUGE_PAGES);
    return start;
}

/* A block of two units of which the first page may be touched: whether it was. */
static bool is_tried(void) {
    char *block = fresh(2);
    hk_huge_pages_try(block, 2 * HK_UNIT);
    const bool tried = is_touched(block);
    CHECK(!is_touched(block + HK_UNIT));
    hk_os_unmap(block, 2 * HK_UNIT);
    return tried;
}

static void tries(void) {
    hk_range_t live;
    size_t used;
    char *early = fresh(1);
    hk_huge_pages_try(early, HK_UNIT);
    CHECK(!is_touched(early)); /* the process has only begun */
    CHECK(hk_region_take(4 * HK_UNIT, HK_UNIT, 0, &live, &used));
    for (unsigned i = 0; i < 50; i++) /* so dear that no touch here is that of a huge page */
        hk_huge_pages_note(UINT32_MAX, false);
    for (unsigned i = 0; i < 4; i++) /* the last huge one was dear */
        CHECK(is_tried());
    char *crooked = fresh(3);
    hk_huge_pages_try(crooked + HK_SLICE, 2 * HK_UNIT);
    CHECK(!is_touched(crooked + HK_SLICE) && is_touched(crooked + HK_UNIT));
    hk_os_unmap(crooked, 3 * HK_UNIT);
    for (unsigned i = 0; i < 10; i++) /* all is forgotten */
        hk_huge_pages_note(16 * (uint64_t)UINT32_MAX, true);
    CHECK_EQ(pause_now(), 0);
    for (unsigned i = 1; i <= 48; i++)
        CHECK_EQ(is_tried(), i % 16 == 0);
    hk_region_give(live);
    hk_os_unmap(early, HK_UNIT);
}

/* What holds nothing, and what cannot be read, is not written to, and looking brings nothing in. */
static void written(void) {
    char *block = fresh(1);
    const size_t page = hk_os_page_size();
    CHECK(!hk_huge_pages_is_written(block) && !hk_huge_pages_is_written(NULL));
    block[0] = 1;
    *(double *)(void *)(block + 2 * page + page / 2) = 1; /* whose lower half is all zero */
    CHECK(hk_huge_pages_is_written(block) && !hk_huge_pages_is_written(block + page));
    CHECK(hk_huge_pages_is_written(block + 2 * page));
    CHECK(hk_os_protect(block, page, HK_NO_ACCESS));
    CHECK(!hk_huge_pages_is_written(block));
    hk_os_unmap(block, HK_UNIT);
    CHECK(!hk_huge_pages_is_written(block));
}

/* One byte of a page that is looked at is enough, and one page is not; nor is what lies in even steps, as programs like them. */
static void hollow(void) {
    const size_t page = hk_os_page_size();
    char *block = fresh(1);
    CHECK(hk_huge_pages_is_hollow(block, HK_UNIT));
    for (size_t step = HK_UNIT; step >= 8 * page; step /= 2) {
        for (size_t at = 0; at < HK_UNIT; at += step)
            block[at] = 1;
        CHECK(hk_huge_pages_is_hollow(block, HK_UNIT));
    }
    for (size_t at = 0; at < HK_UNIT; at += page)
        block[at] = 0;
    unsigned seen = 0; /* with the first one, each of seven others is one too many */
    block[0] = 1;
    for (size_t at = page; at < HK_UNIT; at += page) {
        block[at + page - 1] = 1;
        seen += !hk_huge_pages_is_hollow(block, HK_UNIT);
        block[at + page - 1] = 0;
    }
    CHECK_EQ(seen, 7);
    hk_os_unmap(block, HK_UNIT);
}

/* A block of so many units, of each 16 of which so many are written to. */
static char *filled_to(size_t units, size_t of_sixteen) {
    char *block = fresh(units);
    for (size_t at = 0; at < units * HK_UNIT; at += hk_os_page_size())
        if (at / (units * HK_UNIT / 16) < of_sixteen)
            block[at] = 1;
    return block;
}

/* Blocks of up to four times the size of what was filled are believed to be, until one was not. */
static void learns(void) {
    char *full = filled_to(4, 16), *half = filled_to(4, 8), *hollow = filled_to(4, 1);
    CHECK(!hk_huge_pages_fill(4 * HK_UNIT));
    CHECK(!hk_huge_pages_learn(full, 4 * HK_UNIT, false));
    CHECK(hk_huge_pages_fill(16 * HK_UNIT) && !hk_huge_pages_fill(17 * HK_UNIT));
    hk_huge_pages_learn(half, 4 * HK_UNIT, false); /* it may still be filled */
    CHECK(hk_huge_pages_fill(4 * HK_UNIT));
    CHECK(!hk_huge_pages_learn(half, 4 * HK_UNIT, true));
    CHECK(!hk_huge_pages_fill(4 * HK_UNIT));
    hk_huge_pages_learn(full, 4 * HK_UNIT, true);
    CHECK(hk_huge_pages_fill(4 * HK_UNIT));
    CHECK(hk_huge_pages_learn(hollow, 4 * HK_UNIT, true));
    CHECK(!hk_huge_pages_fill(4 * HK_UNIT));
    hk_os_unmap(full, 4 * HK_UNIT);
    hk_os_unmap(half, 4 * HK_UNIT);
    hk_os_unmap(hollow, 4 * HK_UNIT);
}

/* What begins each of a block's units, and nothing else, does not fill it. */
static void learns_in_even_steps(void) {
    char *full = filled_to(4, 16), *sparse = fresh(16);
    for (size_t at = 0; at < 16 * HK_UNIT; at += HK_UNIT)
        sparse[at] = 1;
    hk_huge_pages_learn(full, 4 * HK_UNIT, true);
    CHECK(hk_huge_pages_fill(16 * HK_UNIT));
    CHECK(hk_huge_pages_learn(sparse, 16 * HK_UNIT, true));
    CHECK(!hk_huge_pages_fill(16 * HK_UNIT));
    hk_os_unmap(full, 4 * HK_UNIT);
    hk_os_unmap(sparse, 16 * HK_UNIT);
}

/* Blocks that are larger than what was filled are not believed to be once one lives on that is not; until one is. */
static void doubts(void) {
    char *full = filled_to(4, 16), *larger = filled_to(8, 16), *reserved = filled_to(8, 1);
    hk_huge_pages_learn(full, 4 * HK_UNIT, false);
    CHECK(hk_huge_pages_fill(9 * HK_UNIT));
    hk_huge_pages_learn(reserved, 8 * HK_UNIT, false);
    CHECK(!hk_huge_pages_fill(9 * HK_UNIT) && hk_huge_pages_fill(8 * HK_UNIT));
    hk_huge_pages_learn(larger, 8 * HK_UNIT, false);
    CHECK(hk_huge_pages_fill(9 * HK_UNIT));
    hk_os_unmap(full, 4 * HK_UNIT);
    hk_os_unmap(larger, 8 * HK_UNIT);
    hk_os_unmap(reserved, 8 * HK_UNIT);
}

int main(void) {
    written();
    hollow();
    learns();
    learns_in_even_steps();
    doubts();
    prices();
    tries();
    return 0;
}
