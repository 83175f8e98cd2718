/* Huge pages: predictions of whether huge blocks will be filled, from earlier ones; whether huge pages
 * pay, from the times of first touches; and that few pages of fresh ranges are touched for that. */
#include "backend/hugepages.h"

#include <sys/mman.h>

#include "backend/advise.h"
#include "backend/region.h"
#include "check.h"
#include "os/os.h"

enum { SMALL_NS = 500 };

/* The time that all small pages of a unit take. */
static uint64_t as_small(void) { return SMALL_NS * (HK_UNIT / hk_os_page_size()); }

/* Lets units pass without huge pages until these are asked for again; returns how many passed. */
static unsigned pause_now(void) {
    unsigned n = 0;
    while (!hk_huge_pages_pay()) {
        hk_huge_pages_pass(HK_UNIT);
        n++;
    }
    return n;
}

/* Expensive huge pages must stop the requests, each time for longer, up to 1024 units; cheap ones must
 * shorten the pause. A burst of slow small pages, or a system without huge pages, must not matter. */
static void prices(void) {
    hk_huge_pages_note(100 * SMALL_NS, true); /* nothing is known yet: counts as a small page */
    for (unsigned i = 0; i < 100; i++)
        hk_huge_pages_note(SMALL_NS, false);
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(3 * as_small(), true); /* not dear enough: it saves time later */
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
    CHECK_EQ(pause_now(), 1);           /* of four units */
    hk_huge_pages_note(SMALL_NS, true); /* so fast: a small page */
    CHECK_EQ(pause_now(), 0);
    hk_huge_pages_note(1000 * as_small(), false); /* a burst moves the mean by less than half */
    hk_huge_pages_note(6 * as_small(), true);
    CHECK_EQ(pause_now(), 8);
    hk_huge_pages_pass(SIZE_MAX); /* ends the pause */
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

/* Whether hk_huge_pages_try() touches the first page of a fresh block of two units; it must not touch
 * the second unit. */
static bool is_tried(void) {
    char *block = fresh(2);
    hk_huge_pages_try(block, 2 * HK_UNIT);
    const bool tried = is_touched(block);
    CHECK(!is_touched(block + HK_UNIT));
    hk_os_unmap(block, 2 * HK_UNIT);
    return tried;
}

/* While huge pages are dear, each range must be tried; while cheap, only one in 16 of these. None in a
 * process that has hardly begun, and only at addresses where a huge page fits. */
static void tries(void) {
    hk_range_t live;
    size_t used;
    char *early = fresh(1);
    hk_huge_pages_try(early, HK_UNIT);
    CHECK(!is_touched(early)); /* the process has only begun */
    CHECK(hk_region_take(4 * HK_UNIT, HK_UNIT, 0, &live, &used));
    for (unsigned i = 0; i < 50; i++) /* so slow that no touch below counts as a huge page's */
        hk_huge_pages_note(UINT32_MAX, false);
    for (unsigned i = 0; i < 4; i++) /* the last huge page was dear */
        CHECK(is_tried());
    char *crooked = fresh(3);
    hk_huge_pages_try(crooked + HK_SLICE, 2 * HK_UNIT);
    CHECK(!is_touched(crooked + HK_SLICE) && is_touched(crooked + HK_UNIT));
    hk_os_unmap(crooked, 3 * HK_UNIT);
    for (unsigned i = 0; i < 10; i++) /* outweighs those times */
        hk_huge_pages_note(16 * (uint64_t)UINT32_MAX, true);
    CHECK_EQ(pause_now(), 0);
    for (unsigned i = 1; i <= 48; i++)
        CHECK_EQ(is_tried(), i % 16 == 0);
    hk_region_give(live);
    hk_os_unmap(early, HK_UNIT);
}

/* A page of zeros, or one that cannot be read, must not count as written to. */
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

/* Any byte of a sampled page must count, but one written page must still be hollow; so must pages at even
 * steps, a common pattern, which the sampled pages must not all hit. */
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
    unsigned seen = 0; /* beside the first page, any of seven others makes the block not hollow */
    block[0] = 1;
    for (size_t at = page; at < HK_UNIT; at += page) {
        block[at + page - 1] = 1;
        seen += !hk_huge_pages_is_hollow(block, HK_UNIT);
        block[at + page - 1] = 0;
    }
    CHECK_EQ(seen, 7);
    hk_os_unmap(block, HK_UNIT);
}

/* A fresh block of which the first `of_sixteen` sixteenths are written to. */
static char *filled_to(size_t units, size_t of_sixteen) {
    char *block = fresh(units);
    for (size_t at = 0; at < units * HK_UNIT; at += hk_os_page_size())
        if (at / (units * HK_UNIT / 16) < of_sixteen)
            block[at] = 1;
    return block;
}

/* Blocks of up to four times the size of a filled one must be expected to be filled, until one ends
 * unfilled. */
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

/* A block with only the first byte of each unit written must not count as filled. */
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

/* Once a larger block lives on unfilled, blocks larger than it must not be expected to be filled, until
 * one of its size was filled. */
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
