/* Advice to the system about pages: in one call or range by range with the same outcome, and given
 * up where the system refuses it again and again. */
#include "backend/advise.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "check.h"
#include "config/config.h"
#include "policy/purger.h"

enum { PAGES = 8192, RANGES = 2500, SEEDS = 4 };

static size_t page;

/* From now on process_madvise fails with this error, as on a kernel that lacks it or under a filter
 * that forbids it. */
static bool refuse_vectors(int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static char *map_touched(void) {
    char *p = hk_os_map(PAGES * page, HK_UNIT);
    CHECK(p != NULL);
    CHECK_EQ(hk_os_advise(&(hk_os_range_t){p, PAGES * page}, 1, HK_NO_HUGE_PAGES).done, 1);
    for (size_t i = 0; i < PAGES; i++)
        p[i * page] = (char)(i % 127 + 1);
    return p;
}

/* Ranges of one to three pages with gaps between them; how many there are. */
static size_t draw(char *p, uint64_t seed, hk_os_range_t *ranges) {
    uint64_t rng = seed;
    size_t n = 0, at = 0;
    while (n < RANGES) {
        at += 1 + chance_below(&rng, 2);
        size_t pages = 1 + chance_below(&rng, 2);
        if (at + pages > PAGES)
            break;
        ranges[n++] = (hk_os_range_t){p + at * page, pages * page};
        at += pages;
    }
    return n;
}

/* Pages of the first `done` ranges have no memory; all others are as they were. */
static void check_pages(const char *p, const hk_os_range_t *ranges, size_t done) {
    static unsigned char resident[PAGES];
    static bool purged[PAGES];
    memset(purged, 0, sizeof purged);
    for (size_t i = 0; i < done; i++)
        for (size_t at = 0; at < ranges[i].bytes; at += page)
            purged[(size_t)((char *)ranges[i].start + at - p) / page] = true;
    CHECK(mincore((void *)(uintptr_t)p, PAGES * page, resident) == 0);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(resident[i] & 1, !purged[i]);
        CHECK_EQ(p[i * page], purged[i] ? 0 : (char)(i % 127 + 1));
    }
}

static void ranges_are_purged(void *unused) {
    static hk_os_range_t ranges[RANGES];
    (void)unused;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char *p = map_touched();
        size_t n = draw(p, seed, ranges);
        CHECK(n > 2048); /* more than the system takes in two calls */
        errno = 77;
        CHECK_EQ(hk_os_advise(ranges, 0, HK_PURGE).calls, 0);
        hk_os_advised_t how = hk_os_advise(ranges, n, HK_PURGE);
        CHECK(how.done == n && how.error == 0 && how.calls >= 1 && how.calls <= n + 1);
        check_pages(p, ranges, n);
        CHECK_EQ(errno, 77);
        CHECK(hk_os_unmap(p, PAGES * page));
    }
    /* one range in the middle is refused: those before it are done, those behind it are not */
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char *p = map_touched();
        size_t n = draw(p, seed, ranges), bad = seed * 500;
        if (syscall(SYS_mlock, ranges[bad].start, page) != 0)
            return;
        hk_os_advised_t how = hk_os_advise(ranges, n, HK_PURGE);
        CHECK_EQ(how.error, EINVAL);
        CHECK_EQ(how.done, bad);
        check_pages(p, ranges, bad);
        CHECK(hk_os_unmap(p, PAGES * page));
    }
}

static void without_vectors(void *error) {
    if (!refuse_vectors((int)(uintptr_t)error)) {
        dprintf(STDERR_FILENO, "seccomp filters are not permitted here");
        return;
    }
    CHECK_EQ(syscall(SYS_process_madvise, 0, NULL, 0, 0, 0), -1);
    CHECK_EQ(errno, (uintptr_t)error);
    ranges_are_purged(NULL);
}

static void one_by_one_is_the_same(void) {
    static const int errors[] = {ENOSYS, EPERM, EBADF, EINVAL};
    static child_t child;
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
        child_run(&child, without_vectors, (void *)(uintptr_t)errors[i]);
        if (strstr(child.text, "not permitted") != NULL)
            dprintf(STDERR_FILENO, "advice one by one is not tested: %s\n", child.text);
        else
            CHECK_TEXT(child.text, "");
        CHECK_EQ(child.status, 0);
    }
}

/* In a child: what is given up stays so. */
static void give_up(void *unused) {
    (void)unused;
    char *p = hk_os_map(4 * page, page);
    const hk_os_range_t good = {p, page}, odd = {p + 1, page}, gone = {p + 2 * page, page};
    CHECK(hk_os_unmap(gone.start, page));
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_EQ(hk_advise(&gone, 1, HK_PURGE).error, ENOMEM); /* says nothing about the system */
        CHECK_EQ(hk_advise(&odd, 1, HK_NO_HUGE_PAGES).error, EINVAL);
        CHECK(!hk_advice_is_disabled());
    }
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_EQ(hk_advise(&odd, 1, i % 2 ? HK_PURGE : HK_RESET).error, EINVAL);
        if (i % 20 == 0)
            CHECK_EQ(hk_advise(&good, 1, HK_PURGE).done, 1);
        CHECK(!hk_advice_is_disabled());
    }
    unsigned refusals = 0;
    while (!hk_advice_is_disabled() && refusals < 1000) {
        CHECK_EQ(hk_advise(&odd, 1, HK_PURGE).done, 0);
        refusals++;
    }
    CHECK(refusals > 1 && refusals < 1000);
    *p = 1;
    hk_os_advised_t how = hk_advise(&good, 1, HK_PURGE);
    CHECK(how.done == 0 && how.calls == 0 && *p == 1);
}

static void refusals_are_given_up_on(void) {
    static child_t child;
    child_run(&child, give_up, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}

int main(void) {
    if (is_emulated("the system's refusals"))
        return UNIT_SKIPPED;
    hk_store_relaxed(&hk_config.lean_decommit, (uint64_t)HK_DECOMMIT_OFF);
    hk_policy_apply(); /* nobody else purges */
    page = hk_os_page_size();
    ranges_are_purged(NULL);
    one_by_one_is_the_same();
    refusals_are_given_up_on();
    return 0;
}
