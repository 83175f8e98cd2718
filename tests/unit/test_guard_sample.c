/* Sampled guards: about as many samples as asked for, in guarded and unguarded processes, switched on
 * and off at run time; and faults in samples. */
#include <errno.h>
#include <pthread.h>

#include "backend/meta.h"
#include "faults.h"
#include "front/boundary.h"
#include "front/guarded.h"
#include "front/sampled.h"
#include "front/thread.h"
#include "front/watched.h"
#include "guard/sample.h"
#include "os/os.h"

/* The mean of the random gaps between samples must be the interval that was set. */
static void gaps_are_right(void) {
    double sum = 0;
    hk_store_relaxed(&hk_config.guard_sample, (uint64_t)1000);
    for (unsigned i = 0; i < 100000; i++)
        sum += hk_sample_gap();
    hk_store_relaxed(&hk_config.guard_sample, (uint64_t)0);
    CHECK(sum / 100000 > 980 && sum / 100000 < 1020);
}

static void *use(void *unused) {
    uint64_t random = (uintptr_t)&random | 1;
    void *blocks[64] = {NULL};
    for (unsigned i = 0; i < 20000; i++) {
        void **slot = &blocks[chance_below(&random, 64)];
        hak_free(*slot);
        const size_t n = chance_below(&random, 6000);
        *slot = i % 7 == 0 ? hak_realloc(hak_malloc(n / 2), n + 1) : hak_malloc(n);
        CHECK(*slot != NULL);
        memset(*slot, 1, n);
    }
    for (unsigned i = 0; i < 64; i++)
        hak_free(blocks[i]);
    return unused;
}

static uint64_t samples(void) {
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(hak_stats_get(&stats) == 0);
    return stats.guard_samples;
}

static uint64_t allocated(void) {
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(hak_stats_get(&stats) == 0);
    return stats.allocated;
}

/* Allocates until a block is a sample. It must count as one allocated OS page. */
static void *sampled_block(void) {
    for (;;) {
        const uint64_t before = samples(), held = allocated();
        void *p = hak_malloc(100);
        if (samples() == before) {
            hak_free(p);
            continue;
        }
        CHECK_EQ(allocated() - held, hk_os_page_size());
        return p;
    }
}

/* Switches sampling on and off with threads running. Fails if samples are far fewer or more than asked
 * for, or if any is taken once it is off. */
static void sampled(void) {
    pthread_t threads[3];
    const uint64_t before = samples();
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "50", NULL, 0) == 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, use, NULL) == 0);
    use(NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    void *one = sampled_block();
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0) == 0);
    hak_free(one);
    const uint64_t some = samples() - before;
    CHECK(some > 4 * 20000 / 50 / 3 && some < 4 * 23000 / 50 * 2);
    use(NULL);
    CHECK_EQ(samples() - before, some);
}

/* Allocates and frees `count` blocks of n bytes, by the function that `how` says; returns how many were
 * samples. */
static unsigned samples_of(size_t n, unsigned count, unsigned how) {
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        void *p = how == 0   ? hak_malloc(n)
                  : how == 1 ? hak_calloc(1, n)
                  : how == 2 ? hak_aligned_alloc(64, n)
                             : hak_realloc(hak_malloc(1), n);
        memset(p, 1, n);
        found += hk_sample_has(p);
        hak_free(p);
    }
    return found;
}

/* Whether the thread's operations go by its trap. */
static bool by_the_trap(void) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    return tc != &tc->thread->cache;
}

/* At a long interval, sampling must not need the trap, and must take about one in EVERY blocks of each
 * size and by each function. It needs the trap at a shorter interval, and beside front metrics, which
 * see all operations. */
static void few_samples(void) {
    enum { EVERY = HK_SAMPLE_FEW_FROM, EXPECTED = 64, LEAST = 20, MOST = 115 };
    static const size_t sizes[] = {17, 100, 1000, 4000};
    const bool guarded = hk_guarded();
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "4096", NULL, 0) == 0);
    CHECK_EQ(by_the_trap(), guarded);
    for (unsigned i = 0; i < 4 && !guarded; i++) {
        const unsigned found = samples_of(sizes[i], EXPECTED * EVERY, i);
        CHECK(found > LEAST && found < MOST);
        CHECK_EQ(samples_of(hk_os_page_size() + 1, EVERY, i), 0);
    }
    CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "1", NULL, 0) == 0);
    CHECK(by_the_trap());
    CHECK(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "0", NULL, 0) == 0);
    CHECK_EQ(by_the_trap(), guarded);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "4095", NULL, 0) == 0);
    CHECK(by_the_trap());
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0) == 0);
    CHECK_EQ(by_the_trap(), guarded);
}

/* An aligned sample's size must be the bytes asked for, and a sized delete with these must be accepted. */
static void sampled_and_aligned(void) {
    enum { TIMES = 300, BYTES = 700, ALIGN = 64 };
    unsigned found = 0;
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "3", NULL, 0) == 0);
    for (unsigned i = 0; i < TIMES; i++) {
        void *p = hak_aligned_alloc(ALIGN, BYTES);
        CHECK_EQ((uintptr_t)p % ALIGN, 0);
        memset(p, 1, BYTES);
        if (hk_sample_has(p)) {
            found++;
            CHECK_EQ(hak_usable_size(p), BYTES);
        }
        hk_delete_slow(p, HK_BY_MALLOC, BYTES, ALIGN);
    }
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0) == 0);
    CHECK(found > 0);
}

/* ---- a fork while another thread takes a sample ---- */

static pthread_barrier_t barrier;

static void *stop_amid(void *unused) {
    hak_free(hak_malloc(16));
    hk_load_relaxed(&hk_tc)->thread->cache.watchers[HK_WATCH_PROFILE] = HK_TAKING_SAMPLE;
    pthread_barrier_wait(&barrier); /* the fork happens between the two waits */
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *take_many(void *unused) {
    for (unsigned i = 0; i < 64 * HK_SAMPLE_FEW_FROM; i++)
        hak_free(hak_malloc(16));
    return unused;
}

/* In the child, the next thread on that record must take samples. */
static void goes_on_in_the_child(void *unused) {
    pthread_t next;
    const uint64_t before = samples();
    CHECK(pthread_create(&next, NULL, take_many, unused) == 0 && pthread_join(next, NULL) == 0);
    CHECK(samples() > before);
}

static void forked_amid_a_sample(void) {
#ifdef __SANITIZE_THREAD__
    return; /* it does not support threads in a fork's child */
#endif
    static child_t in_child;
    pthread_t other;
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "4096", NULL, 0) == 0);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&other, NULL, stop_amid, NULL) == 0);
    pthread_barrier_wait(&barrier);
    child_run(&in_child, goes_on_in_the_child, NULL);
    CHECK_EQ(in_child.status, 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0) == 0);
}

#if HK_DEBUG
/* The system refuses to take a freed sample's page away. The next block on the page must not be reported
 * as written to: the page must have been cleared. */
static void sampled_without_memory(void) {
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "1", NULL, 0) == 0);
    for (unsigned i = 0; i < 2000; i++) {
        char *p = hak_malloc(162);
        memset(p, 1, 162);
        hk_os_fail_after(0);
        hak_free(p);
        hk_os_fail_after(-1);
    }
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0) == 0);
}

/* A sample that shrinks in place, because no memory is left for a smaller block, must have the new size
 * from then on: the write behind it must be reported. */
static void shrinks_where_it_is(void *unused) {
    (void)unused;
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "1", NULL, 0) == 0);
    char *p = hak_malloc(3000), *beyond = hak_malloc(3000);
    CHECK(hk_sample_has(p) && hk_sample_has(beyond));
    memset(p, 'x', 3000);
    memset(beyond, 'x', 3000);
    hk_os_fail_after(0);
    while (hak_malloc(1500) != NULL)
        continue;
    CHECK(hak_realloc(p, 1500) == p && p[1499] == 'x');
    CHECK(hak_realloc(p, 1500) == p);
    CHECK(hak_realloc(beyond, 1500) == beyond);
    hk_os_fail_after(-1);
    CHECK_EQ(hak_usable_size(p), 1500);
    hk_delete_slow(p, HK_BY_MALLOC, 1500, 1);
    *(char *)hidden(beyond + 1500) = 'x';
    hak_free(beyond);
}

static void samples_shrink(void) {
    static child_t child;
    child_run(&child, shrinks_where_it_is, NULL);
    CHECK(strstr(child.text, "hakmem: fatal: overflow: ") == child.text);
    CHECK(strstr(child.text, ", a block of 1500 bytes, at byte 1500, ") != NULL);
}

/* A refused start of sampling must not use up the allocator's own memory. A place for a sample whose
 * pages were refused must not confuse the report of an access near it. */
static void refused_at_first(void *unused) {
    char *own = hk_meta_alloc(HK_CACHE_LINE);
    (void)unused;
    hk_os_fail_after(0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(!hk_sample_prepare());
    hk_os_fail_after(-1);
    CHECK(hk_meta_alloc(HK_CACHE_LINE) == own + HK_CACHE_LINE);
    CHECK(hk_sample_prepare());
    hk_os_fail_after(0);
    CHECK(hk_sample_alloc(100, 8, HK_BY_MALLOC) == NULL);
    hk_os_fail_after(-1);
    char *p = hk_sample_alloc(100, 8, HK_BY_MALLOC);
    CHECK(p != NULL);
    p -= (uintptr_t)p % hk_os_page_size();
    ((volatile char *)p)[-(ptrdiff_t)hk_os_page_size()] = 1; /* nearer to the refused one */
}

static void nothing_is_left_of_refusals(void) {
    static child_t child;
    child_run(&child, refused_at_first, NULL);
    CHECK(strstr(child.text, "hakmem: fatal: out of bounds: ") == child.text);
}

/* hak_ctl() must return ENOMEM if sampling cannot start, and leave the option as it was. */
static void asked_in_vain(void *unused) {
    char now[8];
    (void)unused;
    hk_os_fail_after(0);
    CHECK_EQ(hak_ctl("HAKMEM_GUARD_SAMPLE", "100", NULL, 0), ENOMEM);
    CHECK_EQ(hak_ctl("HAKMEM_GUARD_SAMPLE", NULL, now, sizeof now), 0);
    CHECK_TEXT(now, "0");
    CHECK_EQ(hk_option_origin(guard_sample), HK_FROM_DEFAULT);
    CHECK_EQ(hak_ctl("HAKMEM_GUARD_SAMPLE", "many", NULL, 0), EINVAL);
    CHECK_EQ(hak_ctl("HAKMEM_GUARD_SAMPLE", "0", NULL, 0), 0);
    hk_os_fail_after(-1);
    CHECK_EQ(hak_ctl("HAKMEM_GUARD_SAMPLE", "100", NULL, 0), 0);
    CHECK(hk_sampling());
}

static void says_that_there_are_none(void) {
    static child_t child;
    child_run(&child, asked_in_vain, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}
#else
static void sampled_without_memory(void) {}
static void samples_shrink(void) {}
static void nothing_is_left_of_refusals(void) {}
static void says_that_there_are_none(void) {}
#endif

/* ---- an access to the samples' pages where no sample ever was ---- */

/* Prints the expected report, then makes the access. */
static void write_far_beyond(void *pages) {
    const size_t page = hk_os_page_size();
    CHECK(hk_sample_prepare());
    char *p = hk_sample_alloc(100, 8, HK_BY_MALLOC);
    CHECK(p != NULL);
    p += *(size_t *)pages * page - (uintptr_t)p % page;
    dprintf(STDOUT_FILENO, "hakmem: fatal: out of bounds: 0x%" PRIxPTR ", in thread %d\n",
            (uintptr_t)p, gettid());
    *(volatile char *)p = 1;
}

/* Of two pages in a row, one belongs to a place and one is a fence. The report must name no block. */
static void blames_nobody(void) {
    static child_t child;
    for (size_t pages = 20; pages < 22; pages++) {
        child_run(&child, write_far_beyond, &pages);
        const size_t len = strcspn(child.text, "\n") + 1;
        if (strncmp(child.text, child.text + len, len) != 0)
            check_failed(__FILE__, __LINE__, child.text);
        CHECK(child.status != 0);
    }
}

/* ---- a thread with a cancellation pending: reporting must not be a cancellation point ---- */

static void *free_twice(void *p) {
    CHECK(pthread_cancel(pthread_self()) == 0);
    hak_free(p);
    hak_free(hidden(p));
    return NULL;
}

static void free_twice_cancelled(void *unused) {
    pthread_t thread;
    (void)unused;
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "1", NULL, 0) == 0);
    CHECK(pthread_create(&thread, NULL, free_twice, sampled_block()) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void faults_end_the_process(void) {
    static child_t child;
    child_run(&child, free_twice_cancelled, NULL);
    CHECK(strstr(child.text, "hakmem: fatal: double free: ") == child.text);
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
}

/* A fault that is only reported must leave errno as it was. */
static void tell_of_a_double_free(void *unused) {
    (void)unused;
    hk_store_relaxed(&hk_on_fault, (unsigned)HK_ON_FAULT_REPORT);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "50", NULL, 0) == 0);
    void *volatile p = sampled_block();
    hak_free(p);
    errno = 77;
    hak_free(p);
    CHECK(errno == 77 && hk_counted_ever(faults) == 1);
}

static void keeps_errno(void) {
    static child_t child;
    child_run(&child, tell_of_a_double_free, NULL);
    CHECK(child.status == 0 && strstr(child.text, "double free") != NULL);
}

int main(void) {
    nothing_is_left_of_refusals();
    says_that_there_are_none();
    blames_nobody();
    faults_end_the_process();
    keeps_errno();
    gaps_are_right();
    sampled();
    sampled_and_aligned();
    few_samples();
    forked_amid_a_sample();
    guard();
    few_samples();
    samples_shrink();
    sampled_without_memory();
    sampled();
    use(NULL);
}
