/* Idle threads lose most of what their magazines hold, wherever they have been stopped; busy ones do not, nor who is observed, nor
 * where somebody has said how much a thread may hold. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"
#include "config/table.h"
#include "front/boundary.h"
#include "front/thread_own.h"
#include "policy/purger.h"
#include "pool_stats.h"
#include "shelves.h"

enum { SECOND = HK_HOSTILE ? 1 : 1000, LONG = 1000 * SECOND, SIZE = 500, MANY = 600 };

static uint64_t now = LONG;

/* Whether somebody was found idle: a trap is set, and a second later it is there. */
static bool look_twice(void) {
    now += LONG;
    const unsigned again = hk_idle_look(true, now);
    now += SECOND;
    return again != 0 && hk_idle_look(false, now) == 0;
}

/* ---- a thread that does what it is told, and sleeps ---- */

static pthread_barrier_t turn;
static void (*what)(void);
static hk_thread_t *sleeper;

static void *sleep_between(void *unused) {
    hak_free(hak_malloc(SIZE));
    sleeper = own_record();
    for (;;) {
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        if (what == NULL)
            return unused;
        what();
    }
}

static pthread_t thread;
static void let_it(void (*do_it)(void)) {
    what = do_it;
    pthread_barrier_wait(&turn);
    if (do_it != NULL)
        pthread_barrier_wait(&turn); /* it is done */
}

static void start(void (*first)(void)) {
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, sleep_between, NULL) == 0);
    pthread_barrier_wait(&turn);
    let_it(first);
}

static void end(void) {
    let_it(NULL);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void fill_magazines(void) {
    for (unsigned cls = hk_class_of(64); cls <= hk_class_of(2048); cls++)
        drive(cls);
}

/* All that it can get is its own, and nobody else's. */
static void use_blocks(void) {
    static uint32_t *blocks[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        blocks[i] = hak_malloc(SIZE);
        for (uint32_t n = 0; n < SIZE / sizeof *blocks[i]; n++)
            blocks[i][n] = i;
    }
    for (uint32_t i = 0; i < MANY; i++) {
        for (uint32_t n = 0; n < SIZE / sizeof *blocks[i]; n++)
            CHECK_EQ(blocks[i][n], i);
        hak_free(blocks[i]);
    }
}

static size_t bytes_held(void) {
    size_t bytes = 0;
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        bytes += hk_magazine_count(sleeper, cls) * hk_classes[cls].size;
    return bytes;
}

static void check_has_one_each(void) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        CHECK(hk_magazine_count(sleeper, cls) <= 1);
}

/* ---- who is idle ---- */

static void loses(void *unused) {
    (void)unused;
    start(fill_magazines);
    const size_t before = bytes_held();
    const uint64_t freed = hk_heap_counted(HK_HEAP_COUNT_remote_frees);
    CHECK(look_twice());
    check_has_one_each();
    CHECK_EQ(hk_heap_counted(HK_HEAP_COUNT_remote_frees), freed); /* no thread has freed them */
    CHECK(HK_HOSTILE || bytes_held() < before / 4); /* whose magazines have room for one */
    let_it(use_blocks);
    CHECK_EQ(hk_load_relaxed(&sleeper->idle), HK_AWAKE);
    slots_are_apart(sleeper);
    let_it(fill_magazines);
    CHECK(look_twice());
    check_has_one_each();
    end();
}

static void *block;
static void *hidden(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}
static void take_one(void) { block = hidden(hak_malloc(SIZE)); }
static void give_one(void) {
    hak_free(block);
    block = NULL;
}

static void free_one(void) { hak_free(hak_malloc(SIZE)); }

static void stays(void *unused) {
    (void)unused;
    start(fill_magazines);
    const size_t before = bytes_held();
    now += LONG;
    CHECK_EQ(hk_idle_look(true, now), SECOND);
    CHECK_EQ(hk_idle_look(false, now + SECOND / 4), SECOND - SECOND / 4); /* too soon */
    CHECK_EQ(bytes_held(), before);
    for (unsigned seconds = 1; seconds < 200;
         seconds *= 2) { /* each time it is left alone for longer */
        let_it(free_one);
        now += seconds * SECOND;
        CHECK_EQ(hk_idle_look(false, now), hk_min(2 * seconds, 64) * SECOND);
        CHECK_EQ(bytes_held(), before);
    }
    end();
}

static void is_wanted(void *unused) {
    (void)unused;
    start(fill_magazines);
    hk_store_relaxed(&hk_origins[HK_OPTION_tcache_kb], HK_FROM_ENVIRONMENT);
    CHECK(!look_twice());
    hk_store_relaxed(&hk_origins[HK_OPTION_tcache_kb], HK_FROM_DEFAULT);
    hk_store_relaxed(&hk_config.prewarm_all, 4u);
    CHECK(HK_HOSTILE || hk_option(lean) != 0 || !look_twice());
    hk_store_relaxed(&hk_config.prewarm_all, 0u);
    CHECK(look_twice());
    end();
}

/* Who is observed from then on goes by the trap all the same, and by the cache when that is over. */
static void is_observed(void *unused) {
    (void)unused;
    if (!hk_option_built(HK_OPTION_front_metrics))
        return;
    start(fill_magazines);
    CHECK(look_twice());
    CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "1", NULL, 0) == 0);
    let_it(use_blocks);
    CHECK(hk_load_relaxed(sleeper->tc) != &sleeper->cache);
    CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "0", NULL, 0) == 0);
    let_it(use_blocks);
    CHECK(hk_load_relaxed(sleeper->tc) == &sleeper->cache);
    let_it(fill_magazines);
    CHECK(look_twice());
    for (unsigned on = 2; on-- != 0;)
        CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", on ? "1" : "0", NULL, 0) == 0);
    let_it(use_blocks); /* by hits on what was left */
    CHECK(hk_load_relaxed(sleeper->tc) == &sleeper->cache);
    let_it(fill_magazines);
    for (unsigned on = 2; on-- != 0;)
        CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", on ? "1" : "0", NULL, 0) == 0);
    CHECK(look_twice()); /* it sleeps, and has not heard of either */
    check_has_one_each();
    end();
}

/* Without a flat map no free goes by the cache, but it shows that its thread is not idle all the same. */
static void only_frees(void *unused) {
    (void)unused;
    start(fill_magazines);
    hk_thread_t *own = hk_thread_enter();
    hk_threads_give_up_flat_map();
    hk_thread_leave(own);
    CHECK(!hk_map_has_flat());
    let_it(take_one);
    now += LONG;
    CHECK_EQ(hk_idle_look(true, now), SECOND);
    CHECK_EQ(hk_load_relaxed(&sleeper->idle), HK_TRAPPED);
    let_it(give_one);
    CHECK_EQ(hk_load_relaxed(&sleeper->idle), HK_AWAKE);
    end();
}

#if !defined(__SANITIZE_THREAD__) /* for which a thread of the child is its parent's */
/* In a fork's child the next thread has its record. */
static void is_left_behind(void *unused) {
    (void)unused;
    start(fill_magazines);
    CHECK(look_twice());
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const hk_thread_t *was = sleeper;
        start(use_blocks);
        CHECK(sleeper == was);
        end();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    let_it(use_blocks);
    end();
}

static void look_on_foot(void) {
    hk_thread_t *own = hk_thread_enter();
    hk_store_relaxed(&hk_config.lean_target_mb, 0u);
    for (unsigned steps = 0; steps < 2; steps++) /* one for the record, one for shelves */
        hk_purger_step();
    hk_thread_leave(own);
}
static void look_as_purger(void) { hk_idle_look(true, now); }

/* In a fork's child nobody has what lies in the magazines of threads that are not there, nor on shelves, until somebody looks. */
static void is_given_back_in_a_child(void *look) {
    start(fill_magazines);
    of_one_processor();
    CHECK(bytes_held() != 0 && on_shelves(hk_class_of(64)) != 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(bytes_held() != 0);
        look == NULL ? look_on_foot() : look_as_purger();
        CHECK_EQ(bytes_held(), 0);
        CHECK_EQ(on_shelves(hk_class_of(64)), 0);
        start(use_blocks);
        fill_magazines();
        slots_are_apart(sleeper);
        end();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(bytes_held() != 0);
    let_it(use_blocks);
    end();
}

#endif

/* ---- past the fork handlers ---- */

/* As in a child that was made while the parent's purger held this thread: nobody lets it go, and it
 * waits once. Where there is a purger, it has only been slow. */
static void is_held_for_good(void *unused) {
    (void)unused;
    fill_magazines();
    hk_thread_t *own = own_record();
    hk_thread_rest_t *rest = hk_thread_rest(own);
    hk_store_relaxed(&own->gate, (unsigned)HK_HELD);
    hk_store_release(own->tc, &rest->trap);
    void *p = hak_malloc(64), *q = hak_malloc(64);
    CHECK(hk_map_kind(p) == HK_KIND_EMERGENCY && hk_map_kind(q) == HK_KIND_EMERGENCY);
    CHECK(hk_load_relaxed(&hk_held_for_good));
    hk_gate_leave(own);
    start(fill_magazines);
    CHECK(look_twice() && !hk_load_relaxed(&hk_held_for_good));
    hak_free(p);
    hak_free(q);
}

/* ---- where it was stopped ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { TRAP_FLAG = 0x100, MOST_STEPS = 4000, HELD = 40 };
static unsigned stop_after; /* so many instructions */
static volatile sig_atomic_t is_over;
static atomic_bool asks;
static void *held_blocks[HELD];

/* Waits there, as where somebody stops all threads by signals. */
static void on_step(int number, siginfo_t *info, void *context) {
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    (void)number, (void)info;
    if (!is_over && stop_after-- == 0) {
        for (hk_store_seq(&asks, true); hk_load_seq(&asks);)
            sched_yield();
        is_over = 1;
    }
    *flags = is_over ? *flags & ~(greg_t)TRAP_FLAG : *flags | TRAP_FLAG;
}

static void take_zeroed(void) { block = hidden(hak_calloc(1, SIZE)); }
static void move_one(void) { block = hidden(hak_realloc(block, 2 * SIZE)); }

static void (*op)(void);
static bool was_stopped;
static atomic_bool is_done;
static void be_stopped(void) {
    for (unsigned i = 0; i < HELD; i++)
        held_blocks[i] = hidden(hak_malloc(SIZE));
    for (unsigned i = 0; i < HELD / 2; i++)
        hak_free(held_blocks[i]);
    if (op == give_one || op == move_one)
        block = hidden(hak_malloc(SIZE));
    is_over = 0;
    raise(SIGTRAP);
    op();
    was_stopped = is_over;
    is_over = 1;
    for (unsigned i = HELD / 2; i < HELD; i++)
        hak_free(held_blocks[i]);
    if (block != NULL)
        give_one();
    hk_store_seq(&is_done, true);
}

static size_t in_use;
static void count_in_use(void) {
    free_one();
    hk_heap_collect(&own_record()->heap);
    in_use = pool_stats().active - hk_magazines_bytes(own_record());
}

static unsigned robbed; /* so often */
static void rob(void) { robbed += look_twice(); }

static void stop(unsigned after, void (*do_it)(void), void (*meanwhile)(void)) {
    stop_after = after;
    hk_store_seq(&is_done, false);
    what = do_it;
    pthread_barrier_wait(&turn);
    for (; !hk_load_seq(&is_done); sched_yield())
        if (hk_load_seq(&asks)) {
            meanwhile();
            hk_store_seq(&asks, false);
        }
    pthread_barrier_wait(&turn);
}

/* No block is lost, and none has two owners. */
static void at_each_step(void (*of)(void)) {
    unsigned after = 0;
    op = of;
    robbed = 0;
    do {
        let_it(fill_magazines);
        let_it(count_in_use);
        const size_t before = in_use;
        stop(after++, be_stopped, rob);
        let_it(use_blocks);
        let_it(count_in_use);
        CHECK_EQ(in_use, before);
    } while (was_stopped && after < MOST_STEPS);
    dprintf(STDOUT_FILENO, "stopped after each of %u instructions, robbed after %u\n", after,
            robbed);
    CHECK(after > 10 && after < MOST_STEPS && robbed > 10);
}

static void begin_steps(void) {
    const struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    is_over = 1;
    start(fill_magazines);
}

static void stopped(void *unused) {
    (void)unused;
    begin_steps();
    at_each_step(take_one);
    at_each_step(give_one);
    at_each_step(take_zeroed);
    at_each_step(move_one);
    end();
}

/* ---- while it wakes ---- */

static void take_by_steps(void) {
    is_over = 0;
    raise(SIGTRAP);
    take_one();
    was_stopped = is_over;
    is_over = 1;
}

static void wake(void) {
    take_by_steps();
    give_one();
    hk_store_seq(&is_done, true);
}

static void fill_two(void) {
    drive(hk_class_of(1024));
    drive(hk_class_of(2048));
}

static void nothing(void) {}
static unsigned after_waking; /* so many of the instructions */

/* The thread has been robbed, and wakes. At each of its instructions, in one of many runs, another thread does something. */
static void at_each_step_of_waking(void (*before)(void), void (*meanwhile)(void),
                                   void (*behind)(void)) {
    enum { BEHIND = 40 };
    unsigned after = 0;
    after_waking = 0;
    do {
        let_it(fill_two);
        CHECK(look_twice());
        before();
        stop(after++, wake, meanwhile);
        behind();
    } while (was_stopped && after_waking < BEHIND);
    dprintf(STDOUT_FILENO, "met after each of %u instructions\n", after);
    CHECK(after > 100);
}
static void note_whether_awake(void) {
    after_waking += hk_load_relaxed(&sleeper->idle) == HK_AWAKE;
}

static void count(void) {
    note_whether_awake();
    CHECK(hk_magazine_count(sleeper, hk_class_of(1024)) <= 1);
    CHECK(hk_magazine_count(sleeper, hk_class_of(2048)) <= 1);
}

/* What was taken is not counted as if it were still there. */
static void is_counted(void *unused) {
    (void)unused;
    begin_steps();
    at_each_step_of_waking(nothing, count, nothing);
    end();
}

static void observe(void) { CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "1", NULL, 0) == 0); }
static void observe_no_more(void) {
    note_whether_awake();
    CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "0", NULL, 0) == 0);
}
static void goes_by_its_cache(void) {
    let_it(take_one);
    let_it(give_one);
    CHECK(hk_load_relaxed(sleeper->tc) == &sleeper->cache);
}

/* Who is observed no more goes by its cache, also if it wakes at that moment. */
static void is_observed_no_more(void *unused) {
    (void)unused;
    if (!hk_option_built(HK_OPTION_front_metrics))
        return;
    begin_steps();
    at_each_step_of_waking(observe, observe_no_more, goes_by_its_cache);
    end();
}

/* ---- while it is held ---- */

static void take_while_held(void) {
    unsigned outside = HK_OUTSIDE;
    hk_thread_t *own = own_record();
    CHECK(hk_cas_acquire(&own->gate, &outside, (unsigned)HK_HELD));
    hk_store_release(own->tc, &hk_thread_rest(own)->trap);
    take_by_steps();
    CHECK(hk_kind_is_class(hk_map_kind(block))); /* not a block of the emergency heap */
    hk_store_release(own->tc, &own->cache);
    give_one();
    hk_store_seq(&is_done, true);
}

static void let_go(void) { hk_gate_leave(sleeper); }

/* A thread whose gate is opened at any instruction of its attempt to enter does enter. */
static void opened(void *unused) {
    enum { STEPS = 500 }; /* fewer than it takes until the thread gives up */
    (void)unused;
    begin_steps();
    for (unsigned after = 0; after < STEPS; after++) {
        stop(after, take_while_held, let_go);
        CHECK(was_stopped);
    }
    end();
}

#else

static void stopped(void *unused) { (void)unused; }
static void opened(void *unused) { (void)unused; }
static void is_counted(void *unused) { (void)unused; }
static void is_observed_no_more(void *unused) { (void)unused; }

#endif

int main(void) {
    check_passes(loses, NULL);
    check_passes(stays, NULL);
    check_passes(is_wanted, NULL);
    check_passes(is_observed, NULL);
    check_passes(only_frees, NULL);
    check_passes(is_held_for_good, NULL);
#if !defined(__SANITIZE_THREAD__)
    check_passes(is_left_behind, NULL);
    check_passes(is_given_back_in_a_child, NULL);
    check_passes(is_given_back_in_a_child, &now);
#endif
    check_passes(stopped, NULL);
    check_passes(is_counted, NULL);
    check_passes(is_observed_no_more, NULL);
    check_passes(opened, NULL);
    return 0;
}
