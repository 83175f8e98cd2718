/* A thread that may take no lock: another thread's fork holds it at its gate, or it is a handler that interrupted the
 * allocator. Blocks that it frees are not lost; if memory is refused it waits for the fork's end; and a handler does
 * not call the hook for refusals. */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/large.h"
#include "backend/region.h"
#include "base/calls.h"
#include "magazines.h"
#include "os/os.h"
#include "pool_stats.h"

#define LARGE (14 * HK_SLICE)
#define HUGE (3 * HK_UNIT)

/* Closes this thread's gate, as another thread's fork does; hk_gate_leave() opens it again. */
static void hold(void) { hk_store_relaxed(&own_record()->gate, (unsigned)HK_HELD); }

static void free_it(void *p) { hak_free(p); }

/* Large and huge blocks freed without locks are put aside: a second free is caught, and the next free that may take
 * locks releases them. */
static void freed_late(void) {
    void *large = hak_malloc(LARGE), *huge = hak_malloc(HUGE), *next = hak_malloc(LARGE / 2);
    const size_t active = pool_stats().active, blocks = hk_large_huge_blocks();
    const size_t live = hk_region_live();
    hold();
    hak_free(large);
    hak_free(huge);
    CHECK_FATAL(free_it, large, "double free", large); /* by forks, which find it held, too */
    CHECK_FATAL(free_it, huge, "double free", huge);
    hk_gate_leave(own_record());
    CHECK_EQ(pool_stats().active, active);
    CHECK_EQ(hk_large_huge_blocks(), blocks);
    hak_free(next);
    CHECK(pool_stats().active <= active - LARGE);
    CHECK_EQ(hk_large_huge_blocks(), blocks - 1);
    CHECK(hk_region_live() <= live - HUGE);
}

static atomic_bool is_held;
static _Atomic(void *) beside_fork; /* to be freed while all threads are held */

/* Registered before the allocator's, and so called after it. */
static void let_the_other_free(void) {
    hk_store_seq(&is_held, hk_load_seq(&beside_fork) != NULL);
    while (hk_load_seq(&is_held))
        usleep(100);
}

static void *free_beside_fork(void *unused) {
    hak_free(hak_malloc(1));
    hk_store_seq(&beside_fork, hak_malloc(HUGE));
    while (!hk_load_seq(&is_held))
        usleep(100);
    hak_free(hk_exchange_seq(&beside_fork, NULL));
    hk_store_seq(&is_held, false);
    return unused;
}

/* The same beside a fork, whose end frees it: nobody else may come for long. */
static void freed_by_the_fork(void) {
    pthread_t other;
    int status;
    CHECK(pthread_create(&other, NULL, free_beside_fork, NULL) == 0);
    while (hk_load_seq(&beside_fork) == NULL)
        usleep(100);
    const size_t blocks = hk_large_huge_blocks(), live = hk_region_live();
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(0);
    CHECK_EQ(hk_large_huge_blocks(), blocks - 1);
    CHECK(hk_region_live() <= live - HUGE);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(pthread_join(other, NULL) == 0);
}

#if HK_DEBUG
/* Ends the `fork` once the other thread sleeps: that is the only futex call here. */
static void *let_go(void *held) {
    const uint64_t calls = hk_counted_ever(futex);
    while (hk_counted_ever(futex) == calls)
        usleep(100);
    hk_gate_leave(held);
    return held;
}

/* The heap has room, but taking it needs a lock, and the system refuses the mapping that would need none: malloc waits
 * for the fork's end instead of failing. */
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

/* The hook may do things that are forbidden in a handler that interrupted the allocator: it is not called there. */
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
    CHECK(pthread_atfork(let_the_other_free, NULL, NULL) == 0);
    hak_free(hak_malloc(1));
    freed_late();
    freed_by_the_fork();
#if HK_DEBUG
    waits_for_the_forks_end();
    calls_nobody_back();
#endif
    return 0;
}
