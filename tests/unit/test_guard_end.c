/* What a guarded process looks at when it ends no thread changes meanwhile that has not allocated before: it waits. */
#include <pthread.h>
#include <sys/mman.h>

#include "faults.h"
#include "os/os.h"

static char *page;               /* where the look is interrupted */
static atomic_bool looks;        /* it has been */
static atomic_uint came, caught; /* how many threads have done something; and by its end */

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
    block = hak_realloc(block, 89990); /* where it is */
    hk_add_seq(&came, 1u);
    return block;
}

static void *give(void *block) {
    wait_for_it();
    hak_free(block);
    hk_add_seq(&came, 1u);
    return NULL;
}

int main(void) {
    static void *(*const works[])(void *) = {take_small, take_large, resize, give, give};
    enum { WORKS = sizeof works / sizeof works[0] };
    pthread_t threads[WORKS];
    guard();
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
