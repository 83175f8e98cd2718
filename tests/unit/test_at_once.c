/* Two threads change the same slice, unit or block at once. Exactly one must succeed, and the other
 * must learn that it did not. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>

#include "backend/large.h"
#include "backend/pagemap.h"
#include "base/report.h"
#include "check.h"
#include "front/thread.h"

enum { ROUNDS = 20000, FREES = 5000, MOST_MS = 10000 };

static cpu_set_t processors;
static atomic_uint arrived;

/* Rounds to do. On busy processors each round may wait, so after MOST_MS the first thread lowers the
 * number before a round; the other thread sees it when both meet. */
static atomic_uint rounds;
static uint64_t began;

static void end_in_time(unsigned thread, unsigned last) {
    if (thread == 0 && hk_os_now_ms() - began > MOST_MS)
        hk_store_seq(&rounds, last);
}

/* A barrier for two. The waiting thread spins, so that both go on at the same moment; it yields now
 * and then, in case there is only one processor. */
static void meet(unsigned times) {
    hk_add_seq(&arrived, 1u);
    for (unsigned i = 1; hk_load_seq(&arrived) < 2 * times; i++)
        if (i % 1000 == 0)
            sched_yield();
}

/* The same, then a random delay: else the thread that waited would always start later. */
static void meet_by_chance(unsigned times, uint64_t *state) {
    volatile unsigned steps = chance_below(state, 1000);
    meet(times);
    while (steps != 0)
        steps--;
}

/* Binds each thread to its own processor, if there are two: on one the threads would hardly ever
 * race. */
static void go_to_processor(unsigned thread) {
    cpu_set_t own;
    CPU_ZERO(&own);
    unsigned at = 0, seen = 0;
    while (at < CPU_SETSIZE && (!CPU_ISSET(at, &processors) || seen++ != thread))
        at++;
    CPU_SET(at, &own);
    sched_setaffinity(0, sizeof own, &own);
}

typedef void work_t(unsigned thread);

static void *run_other(void *work) {
    go_to_processor(1);
    (*(work_t **)work)(1);
    return NULL;
}

static void both(work_t *work, unsigned most) {
    pthread_t other;
    hk_store_seq(&arrived, 0u);
    hk_store_seq(&rounds, most);
    began = hk_os_now_ms();
    CHECK(pthread_create(&other, NULL, run_other, &work) == 0);
    go_to_processor(0);
    work(0);
    CHECK(pthread_join(other, NULL) == 0);
}

/* ---- the page map ---- */

static char *unit;
static atomic_uint changed, had_before;

/* Both threads make the same change, to and fro from round to round; `changed` counts successes. */
static void change(unsigned thread) {
    static const unsigned kinds[] = {HK_KIND_LARGE, HK_KIND_FREE};
    uint64_t state = thread + 1;
    for (unsigned i = 0; i < hk_load_seq(&rounds); i++) {
        end_in_time(thread, i + 1);
        meet_by_chance(i + 1, &state);
        if (hk_map_change(unit, kinds[i % 2], kinds[(i + 1) % 2]))
            hk_add_seq(&changed, 1u);
    }
}

/* Both threads set the same owner. Exactly one of them must get the previous round's owner back. */
static void set_owner(unsigned thread) {
    static char owners[ROUNDS + 1];
    uint64_t state = thread + 1;
    for (unsigned i = 0; i < hk_load_seq(&rounds); i++) {
        end_in_time(thread, i + 1);
        meet_by_chance(i + 1, &state);
        if (hk_map_set_owner(unit, &owners[i + 1]) == (i == 0 ? NULL : &owners[i]))
            hk_add_seq(&had_before, 1u);
    }
}

static void one_changes_the_map(void) {
    unit = (char *)(uintptr_t)0x30000000000; /* addresses that nothing uses */
    CHECK(hk_map_commit(unit, HK_UNIT));
    hk_map_set(unit, 1, HK_KIND_LARGE);
    both(change, ROUNDS);
    const unsigned kind = hk_load_seq(&rounds) % 2 == 0 ? HK_KIND_LARGE : HK_KIND_FREE;
    CHECK_EQ(hk_load_seq(&changed), hk_load_seq(&rounds));
    CHECK_EQ(hk_map_kind(unit), kind);
    both(set_owner, ROUNDS);
    CHECK_EQ(hk_load_seq(&had_before), hk_load_seq(&rounds));
    hk_map_set_owner(unit, NULL);
    hk_map_set(unit, 1, HK_KIND_FOREIGN);
}

/* ---- blocks ---- */

static hk_heap_t heaps[2];
static struct {
    void *p;
    size_t n;
    unsigned kind, taken;
} block;
static atomic_uint freed;
static _Thread_local sigjmp_buf told;

static void on_trap(int number) {
    (void)number;
    siglongjmp(told, 1);
}

/* Frees the block. False: reported as a double free, or as an invalid one if the other thread's free
 * was further along. */
static bool is_freed(unsigned thread, unsigned times, uint64_t *state) {
    if (sigsetjmp(told, 1) != 0)
        return false;
    meet_by_chance(times, state);
    hk_large_free(&heaps[thread], block.p, block.kind);
    return true;
}

/* Both threads free the same block; `freed` must grow by one per round. */
static void free_each(unsigned thread) {
    uint64_t state = thread + 1;
    size_t dirty;
    for (unsigned i = 1; i <= hk_load_seq(&rounds) && hk_load_seq(&freed) == i - 1; i++) {
        end_in_time(thread, i);
        if (thread == 0) {
            CHECK((block.p = hk_large_alloc(&heaps[0], block.n, 16, &dirty)) != NULL);
            CHECK_EQ(hk_map_kind(block.p), block.kind);
            block.taken = i;
        }
        if (is_freed(thread, 2 * i - 1, &state))
            hk_add_seq(&freed, 1u);
        meet(2 * i);
    }
}

/* The reports of double frees meanwhile go to /dev/null. */
static void one_frees(size_t n, unsigned kind) {
    const int said = dup(STDERR_FILENO), nobody = open("/dev/null", O_WRONLY);
    CHECK(said >= 0 && dup2(nobody, STDERR_FILENO) == STDERR_FILENO);
    block.n = n;
    block.kind = kind;
    hk_store_seq(&freed, 0u);
    both(free_each, FREES);
    CHECK(dup2(said, STDERR_FILENO) == STDERR_FILENO && close(said) == 0 && close(nobody) == 0);
    CHECK_EQ(hk_load_seq(&freed), block.taken);
}

static void one_frees_a_block(void) {
    const struct sigaction action = {.sa_handler = on_trap};
    CHECK(sigaction(SIGILL, &action, NULL) == 0 && sigaction(SIGTRAP, &action, NULL) == 0);
    hk_store_relaxed(&hk_on_fault, (unsigned)HK_ON_FAULT_TRAP);
    hk_heap_init(&heaps[0]);
    hk_heap_init(&heaps[1]);
    one_frees(3 * HK_SLICE, HK_KIND_LARGE);
    one_frees(2 * HK_UNIT, HK_KIND_HUGE);
}

int main(void) {
    sched_getaffinity(0, sizeof processors, &processors);
    hk_thread_t *thread = hk_thread_enter(); /* sets hakmem up */
    if (thread != NULL)
        hk_thread_leave(thread);
    one_changes_the_map();
    one_frees_a_block();
    return 0;
}
