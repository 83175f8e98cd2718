/* Spare mappings: how many there are, that they are made once and unmapped on request, when mappings count as short,
 * and how many calls then go without moving pages. */
#include "backend/mappings.h"

#include <fcntl.h>
#include <pthread.h>

#include "backend/region_own.h"
#include "base/calls.h"
#include "check.h"
#include "os/os.h"

enum { READABLE = 9, HOLES = 8 }; /* 17 pages, the first and the last readable */

/* ---- as the kernel has them ---- */

static const char *all_mappings(void) {
    static char text[1 << 20];
    size_t len = 0;
    ssize_t n;
    int fd = open("/proc/self/maps", O_RDONLY);
    CHECK(fd >= 0);
    while ((n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    CHECK(len < sizeof text - 1);
    text[len] = '\0';
    return text;
}

/* Mappings of one inaccessible OS page. */
static unsigned holes(void) {
    unsigned n = 0;
    for (const char *line = all_mappings(); *line != '\0'; line = strchr(line, '\n') + 1) {
        uintptr_t from, to;
        char access[5];
        CHECK(sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, access) == 3);
        n += to - from == hk_os_page_size() && strcmp(access, "---p") == 0;
    }
    return n;
}

/* ---- made, and unmapped ---- */

static uint64_t made(unsigned kind) { return hk_load_relaxed(&hk_counters[kind]); }

/* The spare mappings are made once, and unmapped once. */
static void there_and_gone(void) {
    const bool seen = !is_emulated("the mappings of a process");
    const unsigned before = seen ? holes() : 0;
    const uint64_t protects = made(HK_CALL_mprotect), unmaps = made(HK_CALL_munmap);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(hk_mappings_to_spare() && hk_mappings_may_be_taken());
        CHECK_EQ(made(HK_CALL_mprotect) - protects, READABLE);
        CHECK_EQ(seen ? holes() - before : HOLES, HOLES);
    }
    CHECK_EQ(made(HK_CALL_munmap), unmaps);
    CHECK(hk_mappings_let_go());
    CHECK_EQ(made(HK_CALL_munmap) - unmaps, 1);
    CHECK_EQ(seen ? holes() : before, before);
    CHECK(!hk_mappings_let_go());
    CHECK_EQ(made(HK_CALL_munmap) - unmaps, 1);
}

enum { THREADS = 4, ROUNDS = 100 };
static pthread_barrier_t barrier;

static void *want_them(void *unused) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        CHECK(hk_mappings_to_spare());
        pthread_barrier_wait(&barrier);
        hk_mappings_let_go();
    }
    return unused;
}

/* Threads race to make the spare mappings: one set stays, the losers' are unmapped. Fails if they leak. */
static void made_at_once(void) {
    pthread_t threads[THREADS];
    const unsigned before = holes();
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, want_them, NULL) == 0);
    const unsigned stacks = holes(); /* with the fences of the threads' stacks */
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(!hk_mappings_let_go());
    CHECK(holes() >= before && holes() <= stacks);
}

/* ---- short ---- */

/* Calls refused until moving may be tried again. */
static unsigned calls_without(void) {
    unsigned n = 0;
    while (n < 10 * HK_PATIENCE && !hk_mappings_may(&hk_region_no_moves))
        n++;
    return n;
}

/* After a refusal HK_PATIENCE calls go without moving pages. */
static void waited(void) {
    CHECK_EQ(calls_without(), 0);
    hk_region_save_mappings();
    CHECK_EQ(calls_without(), HK_PATIENCE);
    CHECK_EQ(calls_without(), 0);
}

#if HK_DEBUG
enum { ASKED = 1 + READABLE }; /* the range, then each page */

/* The system grants that many calls, then refuses. */
static bool there_after(long calls) {
    hk_os_fail_after(calls);
    const bool there = hk_mappings_to_spare();
    hk_os_fail_after(-1);
    return there;
}

static bool may_be_taken_after(long calls) {
    hk_os_fail_after(calls);
    const bool may = hk_mappings_may_be_taken();
    hk_os_fail_after(-1);
    return may;
}

/* Mappings are short once the spare ones could not all be made, until they can; an attempt that fails leaves none. */
static void short_of_them(void) {
    const unsigned before = holes();
    /* the first call is the reservation: refused perhaps for want of addresses, so not short */
    CHECK(!there_after(0));
    CHECK(!hk_mappings_are_short() && may_be_taken_after(0));
    for (long calls = 1; calls < ASKED; calls++) {
        CHECK(!there_after(calls));
        CHECK(hk_mappings_are_short());
        CHECK(!may_be_taken_after(calls) && !may_be_taken_after(0));
        CHECK_EQ(holes(), before);
        CHECK(!hk_mappings_let_go());
        CHECK(there_after(ASKED) && !hk_mappings_are_short());
        CHECK(may_be_taken_after(0)); /* without a system call */
        CHECK(hk_mappings_let_go() && !hk_mappings_are_short());
    }
}

/* While mappings are short, the wait starts anew each time that it ends. */
static void waited_while_short(void) {
    CHECK(!there_after(1));
    hk_region_save_mappings();
    hk_os_fail_after(1);
    for (unsigned i = 0; i < 3 * HK_PATIENCE; i++) {
        CHECK(!hk_mappings_may(&hk_region_no_moves));
        hk_os_fail_after(1);
    }
    hk_os_fail_after(-1);
    CHECK(calls_without() <= HK_PATIENCE);
    CHECK(!hk_mappings_are_short() && hk_mappings_let_go());
}
#else
static void short_of_them(void) {}
static void waited_while_short(void) {}
#endif

int main(void) {
    hk_mappings_let_go();
    there_and_gone();
    if (!is_emulated("threads' mappings")) {
        made_at_once();
        short_of_them();
    }
    waited();
    waited_while_short();
    return 0;
}
