/* A guarded process must reuse freed blocks late and at random, and hand out fresh ones in a random
 * order. */
#include <errno.h>
#include <pthread.h>

#include "faults.h"
#include "front/magazine.h"
#include "guard/quarantine.h"
#include "stats_now.h"

/* A freed block may be among the next eight blocks in fewer than half of the tries. */
static void reuse_is_late(void) {
    enum { TRIES = 400 };
    unsigned soon = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        void *p = hak_malloc(100), *held[8];
        hak_free(p);
        for (unsigned j = 0; j < 8; j++) {
            held[j] = hak_malloc(100);
            soon += held[j] == p;
        }
        for (unsigned j = 0; j < 8; j++)
            hak_free(held[j]);
    }
    CHECK(soon < TRIES / 2);
}

/* Addresses of blocks in a row must go up about as often as down. */
static void order_is_chance(void) {
    enum { BLOCKS = 512 };
    char *blocks[BLOCKS];
    unsigned up = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(700);
    for (unsigned i = 1; i < BLOCKS; i++)
        up += blocks[i] > blocks[i - 1];
    if (!HK_HOSTILE) /* there, magazines have no two blocks to shuffle */
        CHECK(up > BLOCKS / 4 && up < BLOCKS / 4 * 3);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Prewarmed blocks must be shuffled too. */
static void prewarmed_order_is_chance(void) {
    hk_thread_t *thread = hk_thread_enter();
    const unsigned cls = hk_class_of(1300);
    hk_magazine_fill(thread, cls, 64);
    void **slots = hk_magazine_slots(thread, cls);
    unsigned up = 0;
    const unsigned blocks = hk_magazine_count(thread, cls);
    for (unsigned i = 2; i <= blocks; i++)
        up += slots[i] > slots[i - 1];
    hk_thread_leave(thread);
    CHECK(up != 0 && up + 1 < blocks);
}

static void use_some(unsigned blocks) {
    void *p[64];
    for (unsigned i = 0; i < blocks; i++)
        p[i] = hak_malloc(3000);
    for (unsigned i = 0; i < blocks; i++)
        hak_free(p[i]);
}

/* Blocks in quarantine must not count as allocated, as blocks in magazines do not. */
static void what_waits_is_not_allocated(void) {
    hak_stats_t before = {.size = sizeof before}, after = before;
    CHECK(hak_stats_get(&before) == 0);
    use_some(40);
    CHECK(hak_stats_get(&after) == 0);
    CHECK_EQ(after.allocated, before.allocated);
}

static atomic_bool waits, may_end;

static void *use_and_wait(void *unused) {
    use_some(40);
    hk_store_seq(&waits, true);
    while (!hk_load_seq(&may_end))
        sched_yield();
    return unused;
}

static void nothing_is_held(void *unused) {
    (void)unused;
    size_t held[HK_CLASS_COUNT];
    hak_trim();
    hk_threads_held(held);
    CHECK_EQ(held[hk_class_of(3001)], 0);
    _exit(0);
}

/* In a fork's child, a trim must also empty the quarantines of the parent's other threads. */
static void a_forks_orphans_let_go(void) {
    static child_t child;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use_and_wait, NULL) == 0);
    while (!hk_load_seq(&waits))
        sched_yield();
    child_run(&child, nothing_is_held, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    hk_store_seq(&may_end, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Without a quarantine, a freed block is handed out next. A signal handler that interrupts its thread at
 * a magazine must get emergency blocks, or ENOMEM. */
static void nothing_waits(void *unused) {
    (void)unused;
    hk_store_relaxed(&hk_config.guard_quarantine_kb, 0u);
    guard();
    void *p = hak_malloc(100);
    for (unsigned i = 0; i < 200; i++) {
        hak_free(p);
        void *q = hak_malloc(100);
        CHECK(q == p);
    }
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const uint64_t dice = hk_quarantine_close(thread->quarantine);
    void *of_handler = hak_malloc(3000);
    CHECK_EQ(hk_map_kind(of_handler), HK_KIND_EMERGENCY);
    hak_free(of_handler);
#if HK_DEBUG
    hk_os_fail_after(0);
    errno = 0;
    CHECK(hidden(hak_malloc(3000)) == NULL && errno == ENOMEM);
    hk_os_fail_after(-1);
#endif
    hk_quarantine_open(thread->quarantine, dice);
    hak_free(p);
    _exit(0);
}

static size_t waiting; /* blocks in the quarantines of all records */
static void count_waiting(hk_thread_t *thread, void *unused) {
    hk_quarantine_t *quarantine = hk_load_acquire(&thread->quarantine);
    (void)unused;
    for (unsigned cls = 1; quarantine != NULL && cls < HK_CLASS_COUNT; cls++)
        waiting += hk_quarantine_count(quarantine, cls);
}

static void *free_some(void *unused) {
    void *p[64];
    for (unsigned i = 0; i < 64; i++)
        p[i] = hak_malloc(100);
    for (unsigned i = 0; i < 64; i++)
        hak_free(p[i]);
    return unused;
}

/* A refused request for a large block must leave small ones waiting, also those of threads that have ended. */
static void a_large_refusal_lets_nothing_go(void) {
    pthread_t id;
    void *held = hak_malloc(40 * HK_MIB);
    CHECK(pthread_create(&id, NULL, free_some, NULL) == 0 && pthread_join(id, NULL) == 0);
    waiting = 0;
    CHECK(hk_threads_visit(count_waiting, NULL));
    const size_t before = waiting;
    CHECK(before != 0);
    hk_limit_set(hk_held() + HK_MIB);
    CHECK(hak_malloc(8 * HK_MIB) == NULL);
    hk_limit_set(0);
    waiting = 0;
    CHECK(hk_threads_visit(count_waiting, NULL));
    CHECK_EQ(waiting, before);
    hak_free(held);
}

int main(void) {
    static child_t child;
    hak_free(hak_malloc(1));
    child_run(&child, nothing_waits, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    guard();
    reuse_is_late();
    order_is_chance();
    if (!HK_HOSTILE)
        prewarmed_order_is_chance();
    what_waits_is_not_allocated();
    a_forks_orphans_let_go();
    a_large_refusal_lets_nothing_go();
}
