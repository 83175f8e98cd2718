/* A thread that may take no lock: another one's fork holds it at its gate, or it is a handler that has interrupted the
 * allocator. What it frees is not lost, it waits where the system has nothing for it, and it calls nobody back. */
#include <errno.h>
#include <pthread.h>

#include "backend/large.h"
#include "backend/region.h"
#include "base/calls.h"
#include "magazines.h"
#include "os/os.h"
#include "pool_stats.h"

#define LARGE (14 * HK_SLICE)
#define HUGE (3 * HK_UNIT)

/* As a fork of another thread does; hk_gate_leave() is its end. */
static void hold(void) { hk_store_relaxed(&own_record()->gate, (unsigned)HK_HELD); }

static void free_it(void *p) { hak_free(p); }

/* What is larger than a class counts as free at once, and goes with the next free that may take locks. */
static void freed_late(void) {
    void *large = hak_malloc(LARGE), *huge = hak_malloc(HUGE), *next = hak_malloc(LARGE / 2);
    const size_t active = pool_stats().active, blocks = hk_large_huge_blocks();
    const size_t live = hk_region_live();
    hold();
    hak_free(large);
    hak_free(huge);
    hk_gate_leave(own_record());
    CHECK_FATAL(free_it, large, "double free", large);
    CHECK_FATAL(free_it, huge, "double free", huge);
    CHECK_EQ(pool_stats().active, active);
    CHECK_EQ(hk_large_huge_blocks(), blocks);
    hak_free(next);
    CHECK(pool_stats().active <= active - LARGE);
    CHECK_EQ(hk_large_huge_blocks(), blocks - 1);
    CHECK(hk_region_live() <= live - HUGE);
}

#if HK_DEBUG
/* Once the other thread sleeps, which is all that anybody calls the futex for here. */
static void *let_go(void *held) {
    const uint64_t calls = hk_counted_ever(futex);
    while (hk_counted_ever(futex) == calls)
        usleep(100);
    hk_gate_leave(held);
    return held;
}

/* There is room for who may take a lock, and no mapping for who may not. */
static void waits_for_the_forks_end(void) {
    pthread_t other;
    void *beside = hak_malloc(LARGE); /* keeps the superslab */
    hak_free(hak_malloc(LARGE));
    CHECK(pthread_create(&other, NULL, let_go, own_record()) == 0);
    hold();
    hk_os_fail_after(0);
    void *p = hak_malloc(LARGE);
    hk_os_fail_after(-1);
    CHECK(p != NULL && hk_map_kind(p) == HK_KIND_LARGE);
    CHECK(pthread_join(other, NULL) == 0);
    hak_free(p);
    hak_free(beside);
}

static unsigned told;

static void hear(size_t wanted, void *context) {
    (void)wanted, (void)context;
    told++;
}

/* Who hears of a refusal may do what a handler must not that has interrupted the allocator. */
static void calls_nobody_back(void) {
    CHECK_EQ(hak_limit_on_reached(hear, NULL), 0);
    hk_thread_t *self = hk_thread_enter();
    hk_os_fail_after(0);
    CHECK(hak_malloc(64 * HK_MIB) == NULL && errno == ENOMEM);
    CHECK_EQ(told, 0);
    hk_thread_leave(self);
    CHECK(hak_malloc(64 * HK_MIB) == NULL && errno == ENOMEM);
    CHECK_EQ(told, 1);
    hk_os_fail_after(-1);
    CHECK_EQ(hak_limit_on_reached(NULL, NULL), 0);
}
#endif

int main(void) {
    hak_free(hak_malloc(1));
    freed_late();
#if HK_DEBUG
    waits_for_the_forks_end();
    calls_nobody_back();
#endif
    return 0;
}
