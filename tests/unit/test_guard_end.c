/* A guarded process that ends checks all blocks if no other thread has allocated. Threads that do so for
 * the first time amid the check must wait: else they would change what is being checked. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "faults.h"
#include "os/os.h"
#include "policy/look.h"

/* An access to the page interrupts the check, which sets `looks`. `came`: threads that have done their
 * work; `caught`: those that have amid the check. */
static char *page;
static atomic_bool looks;
static atomic_uint came, caught;

/* The check has hit the page: gives the other threads 200 ms to do what they must not, then lets it go
 * on. */
static void on_look(int number) {
    hk_store_seq(&looks, true);
    for (unsigned i = 0; number == SIGSEGV && i < 200 && hk_load_seq(&came) == 0; i++)
        usleep(1000);
    hk_store_seq(&caught, hk_load_seq(&came));
    if (mprotect(page, hk_os_page_size(), PROT_READ | PROT_WRITE) != 0)
        _exit(2);
}

static void wait_for_it(void) {
    while (!hk_load_seq(&looks))
        sched_yield();
}

static void *take_small(void *unused) {
    wait_for_it();
    hak_free(hak_malloc(100));
    hk_add_seq(&came, 1u);
    return unused;
}

static void *take_large(void *unused) {
    (void)unused;
    wait_for_it();
    void *block = hak_malloc(100000);
    hk_add_seq(&came, 1u);
    return block;
}

static void *resize(void *block) {
    wait_for_it();
    block = hak_realloc(block, hk_guard->fences ? 89990 /* in place */ : 200000);
    hk_add_seq(&came, 1u);
    return block;
}

static void *give(void *block) {
    wait_for_it();
    hak_free(block);
    hk_add_seq(&came, 1u);
    return NULL;
}

/* As the purger does, whose thread has no record. */
static void *purge(void *unused) {
    wait_for_it();
    hk_lock(&hk_look_lock);
    hk_add_seq(&came, 1u);
    hk_unlock(&hk_look_lock);
    return unused;
}

/* A signal handler ends the process at any moment of an allocation, free or realloc: the check must not
 * report a fault for a block that is half done. */
static void finish(int number) {
    (void)number;
    hk_guarded_finish();
    _exit(0);
}

static void at_blocks(void *us) {
    enum { BLOCKS = 64, BYTES = 900 };
    void *blocks[BLOCKS] = {NULL};
    signal(SIGALRM, finish);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = *(int *)us}, NULL);
    for (unsigned i = 0, at = 0;; i++, at = i % BLOCKS)
        if (i % 3 == 0 && blocks[at] != NULL) {
            blocks[at] = hak_realloc(blocks[at], BYTES + i % 100);
        } else {
            hak_free(blocks[at]);
            memset(blocks[at] = hak_malloc(BYTES + i % 50), 1, BYTES);
        }
}

static void at_buffers(void *us) {
    enum { BYTES = 40000 };
    void *buffer = NULL;
    for (unsigned i = 0; i < 100; i++) /* until most freed buffers stay writable */
        hak_free(hak_malloc(BYTES));
    signal(SIGALRM, finish);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = *(int *)us}, NULL);
    for (;;) {
        hak_free(buffer);
        memset(buffer = hak_malloc(BYTES), 1, BYTES);
    }
}

static void handlers_end_it(void (*at)(void *)) {
    enum { CHILDREN = 400 };
    for (int i = 0, us = 300; i < CHILDREN; i++, us = 300 + i * 7 % 1000) {
        static child_t child;
        child_run(&child, at, &us);
        CHECK_TEXT(child.text, "");
        CHECK_EQ(child.status, 0);
    }
}

int main(void) {
    static void *(*const works[])(void *) = {take_small, take_large, resize, give, give, purge};
    enum { WORKS = sizeof works / sizeof works[0] };
    pthread_t threads[WORKS];
    guard();
    handlers_end_it(at_blocks); /* before there are threads: then all blocks are checked */
    handlers_end_it(at_buffers);
    char *small = hak_malloc(100);
    void *blocks[WORKS] = {NULL, NULL, hak_malloc(90000), hak_malloc(80000), hak_malloc(200)};
    page = (char *)((uintptr_t)small & ~(uintptr_t)(hk_os_page_size() - 1));
    for (unsigned i = 0; i < WORKS; i++)
        CHECK(pthread_create(&threads[i], NULL, works[i], blocks[i]) == 0);
    CHECK(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_look}, NULL) == 0);
    CHECK(mprotect(page, hk_os_page_size(), PROT_NONE) == 0);
    hk_guarded_finish();
    CHECK(hk_load_seq(&looks));
    CHECK_EQ(hk_load_seq(&caught), 0);
    for (unsigned i = 0; i < WORKS; i++) {
        CHECK(pthread_join(threads[i], &blocks[i]) == 0);
        hak_free(blocks[i]);
    }
    CHECK_EQ(hk_load_seq(&came), WORKS);
    return 0;
}
