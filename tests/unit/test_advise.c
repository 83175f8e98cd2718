/* Advice to the system about pages: it has its effect; after many refusals in a row it is given up,
 * until a fork or a trim tries again. */
#include "backend/advise.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/counters.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "policy/purger.h"
#include "superslabs.h"

static size_t page;

/* Purges every second page. Fails if a page stays resident that was purged, or if a page goes that
 * was not, or that is locked; errno must not change. */
static void pages_are_purged(void) {
    enum { PAGES = 32 };
    static unsigned char resident[PAGES];
    char *p = hk_os_map(PAGES * page, page);
    CHECK(p != NULL);
    CHECK_EQ(hk_os_advise(p, PAGES * page, HK_NO_HUGE_PAGES), 0);
    for (size_t i = 0; i < PAGES; i++)
        p[i * page] = (char)(i + 1);
    const bool locked = syscall(SYS_mlock, p, page) == 0;
    errno = 77;
    for (size_t i = 0; i < PAGES; i += 2)
        CHECK_EQ(hk_os_advise(p + i * page, page, HK_PURGE), i == 0 && locked ? EINVAL : 0);
    CHECK_EQ(errno, 77);
    CHECK(mincore(p, PAGES * page, resident) == 0);
    for (size_t i = 0; i < PAGES; i++) {
        const bool stays = i % 2 != 0 || (i == 0 && locked);
        CHECK_EQ(resident[i] & 1, stays);
        CHECK_EQ(p[i * page], stays ? i + 1 : 0);
    }
    CHECK(hk_os_unmap(p, PAGES * page));
}

static char *own; /* the page on which the child that gives up tries advice */

static bool odd_is_refused(hk_advice_t how) {
    const uint64_t before = hk_counted_ever(madvise_other);
    return !hk_advise(own + 1, page, how) && hk_counted_ever(madvise_other) == before + 1;
}

static bool good_is_done(void) {
    *own = 1;
    return hk_advise(own, page, HK_PURGE) && *own == 0;
}

/* Refusals only: advice must be given up after more than one of them, and nothing be purged then. */
static void give_up(void) {
    unsigned most = 0;
    for (; !hk_advice_is_disabled(); most++)
        CHECK(most < 1000 && odd_is_refused(HK_PURGE));
    CHECK(most > 1);
    CHECK(!odd_is_refused(HK_PURGE) && !good_is_done() && *own == 1); /* the system is not asked */
    CHECK_EQ(purge_each(HK_PURGE, false), 0);
}

/* A fork's child inherits no memory locks, so it must try again: its purge must succeed. */
static void forked(void *unused) {
    (void)unused;
    CHECK(!hk_advice_is_disabled() && good_is_done());
    CHECK(purge_each(HK_PURGE, false) >= (HK_SLICES - 1) * HK_SLICE);
}

/* Clearing a locked block: each refusal is counted, but concerns only that block. Fails if advice is
 * given up for it, or if the block does not read as zero. */
static void locked_blocks_are_cleared(void) {
    char *p = hk_os_map(HK_UNIT, page);
    CHECK(p != NULL);
    if (syscall(SYS_mlock, p, HK_UNIT) != 0)
        return;
    const uint64_t mode = hk_option(lean_decommit), before = hk_counted_ever(madvise_other);
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_DONTNEED);
    enum { CLEARED = 100 };
    for (unsigned i = 0; i < CLEARED; i++) {
        *p = 1;
        hk_purge_clear(p, HK_UNIT);
        CHECK_EQ(*p, 0);
    }
    hk_store_relaxed(&hk_config.lean_decommit, mode);
    CHECK_EQ(hk_counted_ever(madvise_other), before + CLEARED);
    CHECK(!hk_advice_is_disabled() && hk_os_unmap(p, HK_UNIT));
}

/* A purge refused for a locked slice must go on behind it, count each byte once, and purge the slice
 * once it is unlocked. */
static void locked_slices_stay(void) {
    const hk_slab_t *run = own_superslab(false);
    hk_slab_t *locked = take_in(run, 1, 0), *between = take_in(run, 1, 0);
    CHECK(between->base == locked->base + HK_SLICE);
    if (syscall(SYS_mlock, locked->base, HK_SLICE) != 0)
        return;
    char *base = locked->base;
    hk_pool_give(locked);
    const size_t bytes = purge_each(HK_PURGE, false);
    CHECK(bytes >= (HK_SLICES - 3) * HK_SLICE && *base == 0x5a);
    CHECK_EQ(purge_each(HK_PURGE, false), 0);
    CHECK_EQ(syscall(SYS_munlock, base, HK_SLICE), 0);
    CHECK_EQ(purge_each(HK_PURGE, false), HK_SLICE);
    hk_pool_give(between);
}

/* Runs in a child. Advice must not be given up for unmapped memory, for requests about huge pages or
 * for refusals between successes. Once given up it must stay so, except in a fork's child, for one
 * call after hk_advice_try_again(), and after a trim. */
static void try_and_give_up(void *unused) {
    static child_t child;
    (void)unused;
    own = hk_os_map(4 * page, page);
    char *gone = own + 2 * page;
    CHECK(hk_os_unmap(gone, page));
    for (unsigned i = 0; i < 1000; i++) {
        const uint64_t before = hk_counted_ever(madvise_enomem);
        CHECK(!hk_advise(gone, page, HK_PURGE)); /* unmapped: no reason to give up */
        CHECK_EQ(hk_counted_ever(madvise_enomem), before + 1);
        CHECK(odd_is_refused(HK_NO_HUGE_PAGES));
        CHECK(!hk_advice_is_disabled());
    }
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(odd_is_refused(i % 2 ? HK_PURGE : HK_RESET));
        if (i % 20 == 0)
            CHECK(good_is_done());
        CHECK(!hk_advice_is_disabled());
    }
    purge_all();
    own_superslab(false); /* free slices that have memory */
    give_up();
    child_run(&child, forked, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    CHECK(hk_advice_is_disabled());
    hk_advice_try_again(); /* for one call */
    CHECK(odd_is_refused(HK_PURGE) && hk_advice_is_disabled());
    CHECK(purge_all() >= (HK_SLICES - 1) * HK_SLICE && !hk_advice_is_disabled());
    hk_advice_try_again();
    CHECK(odd_is_refused(HK_PURGE) && !hk_advice_is_disabled());
}

static void refusals_are_given_up_on(void) {
    static child_t child;
    child_run(&child, try_and_give_up, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}

int main(void) {
    if (is_emulated("the system's refusals"))
        return UNIT_SKIPPED;
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_policy_apply(); /* no other thread purges */
    hak_free(hak_malloc(1));
    page = hk_os_page_size();
    pages_are_purged();
    locked_blocks_are_cleared();
    locked_slices_stay();
    refusals_are_given_up_on();
    return 0;
}
