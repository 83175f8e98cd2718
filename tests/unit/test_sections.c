/* Sections of the slow paths: entries are counted exactly, every Nth is timed, entries of ended threads stay counted,
 * a fork's child starts at zero, and nothing is counted while sampling is off. */
#include <fcntl.h>
#include <pthread.h>

#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/magazine.h"
#include "hakmem/hakmem.h"
#include "stats/sections.h"

#define OPTION "HAKMEM_SECTIONS_SAMPLE"

static void sample(const char *every) { CHECK_EQ(hak_ctl(OPTION, every, NULL, 0), 0); }

static hk_sections_sum_t now(void) {
    hk_sections_sum_t sum;
    hk_sections_sum(&sum);
    return sum;
}

#define SINCE(before, after, section, name)                                                        \
    ((after)->of[HK_SECTION_##section].name - (before)->of[HK_SECTION_##section].name)

/* Calls that come to the boundary, as predicted from the magazines' contents before each call. */
typedef struct {
    uint64_t mallocs, frees;
} misses_t;

static hk_thread_t *self(void) { return hk_load_relaxed(&hk_tc)->thread; }

static void *allocate(size_t n, misses_t *misses) {
    misses->mallocs += hk_magazine_count(self(), hk_class_of(n)) == 0;
    void *p = hak_malloc(n);
    CHECK(p != NULL);
    return p;
}

static void release(void *p, misses_t *misses) {
    unsigned cls = hk_map_kind(p); /* the size may have another, learned class by now */
    const hk_tcache_t *cache = &self()->cache;
    /* without the flat map every free comes to the boundary */
    misses->frees += hk_load_relaxed(&cache->mask) == 0 ||
                     hk_load_relaxed(&cache->top[cls]) == cache->limit[cls];
    hak_free(p);
}

enum { BLOCKS = 3000 };

/* Allocates and frees blocks of several classes, so that magazines run empty and full. The thread has a cache. */
static misses_t work(void) {
    static _Thread_local void *blocks[BLOCKS];
    static const size_t sizes[] = {8, 100, 1000, 3000, 20000};
    misses_t misses = {0};
    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        unsigned n = BLOCKS / (unsigned)(1 + sizes[s] / 1000);
        for (unsigned i = 0; i < n; i++)
            blocks[i] = allocate(sizes[s], &misses);
        for (unsigned i = 0; i < n; i++)
            release(blocks[i], &misses);
    }
    CHECK(misses.mallocs > 20 && misses.frees > 20);
    return misses;
}

/* ---- off ---- */

static const char *written(hak_stats_format_t format) {
    static char text[32768];
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(fcntl(ends[1], F_SETPIPE_SZ, (int)sizeof text) >= (int)sizeof text);
    CHECK_EQ(hak_stats_print(ends[1], format), 0);
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    text[len] = '\0';
    return text;
}

static void off_from_the_start(void) {
    static const hk_sections_sum_t nothing;
    work();
    hk_sections_sum_t sum = now();
    CHECK(memcmp(&sum, &nothing, sizeof sum) == 0);
    CHECK(strstr(written(HAK_STATS_JSON), "\"sections_sample\": 0") != NULL);
    CHECK(strstr(written(HAK_STATS_JSON), "\"sections\": {}}\n") != NULL);
    CHECK(strstr(written(HAK_STATS_TEXT), "section") == NULL);
    CHECK(strstr(written(HAK_STATS_OPENMETRICS), "section") == NULL);
}

static void off_again(void) {
    hk_sections_sum_t before = now();
    sample("0");
    work();
    hak_free(hak_malloc(8 * HK_MIB));
    hk_sections_sum_t after = now();
    CHECK_EQ(after.sample, 0);
    CHECK(memcmp(before.of, after.of, sizeof before.of) == 0);
    CHECK(strstr(written(HAK_STATS_TEXT), "\n  malloc_slow ") != NULL);
}

/* ---- counts ---- */

/* With N = 1 every entry is timed, or dropped because the thread changed its core meanwhile. */
static void check_all_timed(const hk_section_sum_t *before, const hk_section_sum_t *after) {
    uint64_t sampled = after->sampled - before->sampled, dropped = after->dropped - before->dropped;
    CHECK_EQ(sampled + dropped, after->count - before->count);
    CHECK(after->cycles >= before->cycles && (sampled != 0 || after->cycles == before->cycles));
    CHECK(after->max <= after->cycles); /* 0 where the timer is coarse */
}

static void counts(void) {
    sample("1");
    hk_sections_sum_t before = now();
    uint64_t refills = hk_heap_counted(HK_HEAP_COUNT_refills);
    misses_t misses = work();
    refills = hk_heap_counted(HK_HEAP_COUNT_refills) - refills;
    hk_sections_sum_t after = now();
    CHECK_EQ(after.sample, 1);
    CHECK(after.overhead != 0);
    CHECK_EQ(SINCE(&before, &after, malloc_slow, count), misses.mallocs);
    CHECK_EQ(SINCE(&before, &after, free_slow, count), misses.frees);
    CHECK_EQ(SINCE(&before, &after, refill, count), refills);
    CHECK(refills >= misses.mallocs);
    CHECK(SINCE(&before, &after, flush, count) > 0);
    CHECK_EQ(SINCE(&before, &after, large_alloc, count), 0);
    CHECK_EQ(SINCE(&before, &after, large_free, count), 0);
    for (unsigned i = 0; i < HK_SECTION_COUNT; i++)
        check_all_timed(&before.of[i], &after.of[i]);
    /* a section's time includes inner sections, unless a timing of the outer one was dropped */
    if (SINCE(&before, &after, malloc_slow, dropped) == 0)
        CHECK(SINCE(&before, &after, malloc_slow, cycles) >=
              SINCE(&before, &after, refill, cycles));
}

static void larger_blocks(void) {
    static const size_t whole = 3 * HK_UNIT;
    sample("1");
    hk_sections_sum_t before = now();
    hak_free(hak_malloc(100000));
    hak_free(hak_calloc(2, 100000));
    hak_free(hak_aligned_alloc(HK_UNIT, 100));
    void *p = hak_malloc(whole);
    CHECK((p = hak_realloc(p, 2 * whole)) != NULL);
    hak_free(p);
    hk_sections_sum_t after = now();
    CHECK_EQ(SINCE(&before, &after, malloc_slow, count), 4);
    CHECK_EQ(SINCE(&before, &after, large_alloc, count), 4);
    CHECK_EQ(SINCE(&before, &after, free_slow, count), 4);
    CHECK_EQ(SINCE(&before, &after, large_free, count), 4);
    CHECK_EQ(SINCE(&before, &after, large_resize, count), 1);
    CHECK(SINCE(&before, &after, region_take, count) >= 2);
    CHECK(SINCE(&before, &after, region_give, count) >= 2);
    CHECK_EQ(SINCE(&before, &after, refill, count), 0);
}

static void purges(void) {
    hk_sections_sum_t before = now();
    CHECK(hak_malloc(1) != NULL);
    hk_trim();
    hk_sections_sum_t trimmed = now();
    work(); /* needs new slabs */
    hk_sections_sum_t after = now();
    CHECK_EQ(SINCE(&before, &trimmed, slab_new, count), 0);
    CHECK(SINCE(&trimmed, &after, slab_new, count) > 0);
    CHECK(SINCE(&before, &after, purge, count) > 0);
    CHECK(SINCE(&before, &after, flush, count) > 0);
}

/* ---- sums ---- */

/* Makes one timed entry that took *ticks or a little more; repeated if it was dropped because the thread changed its
 * core. */
static void *take_ticks(void *ticks) {
    for (uint64_t sampled = 0; sampled == 0;) {
        const hk_sections_sum_t before = now();
        hk_entry_t entry = hk_section_begin(HK_SECTION_purge);
        CHECK(entry.timings != NULL);
        entry.start -= *(uint64_t *)ticks;
        hk_section_end(&entry);
        const hk_sections_sum_t after = now();
        sampled = SINCE(&before, &after, purge, sampled);
    }
    return NULL;
}

/* Counts and cycles add up over threads; the maximum is the maximum over threads. */
static void sums(void) {
    uint64_t longer = (uint64_t)1 << 30, shorter = longer / 2;
    pthread_t id;
    sample("1");
    const hk_sections_sum_t before = now();
    take_ticks(&longer);
    CHECK(pthread_create(&id, NULL, take_ticks, &shorter) == 0);
    CHECK(pthread_join(id, NULL) == 0);
    const hk_sections_sum_t after = now();
    CHECK(SINCE(&before, &after, purge, count) >= 2);
    CHECK_EQ(SINCE(&before, &after, purge, sampled), 2);
    CHECK(SINCE(&before, &after, purge, cycles) >= longer + shorter);
    CHECK(after.of[HK_SECTION_purge].max >= longer);
    CHECK(after.of[HK_SECTION_purge].max < longer + shorter);
}

/* ---- every Nth ---- */

static void every_nth(uint64_t every, const char *text) {
    sample(text);
    hk_sections_sum_t before = now();
    for (unsigned round = 0; round < 5; round++)
        work();
    hk_sections_sum_t after = now();
    const hk_section_sum_t *a = before.of, *b = after.of;
    CHECK_EQ(after.sample, every);
    CHECK(SINCE(&before, &after, refill, count) > 2 * every);
    for (unsigned i = 0; i < HK_SECTION_COUNT; i++) {
        uint64_t timed = b[i].sampled - a[i].sampled + b[i].dropped - a[i].dropped;
        uint64_t expected = (b[i].count - a[i].count) / every;
        CHECK(timed == expected || timed == expected + 1);
    }
}

/* ---- dropped timings ---- */

static void dropped_timings(void) {
    hk_section_timings_t timings = {0};
    hk_entry_t entry = {.timings = &timings, .cpu = hk_os_cpu(), .start = UINT64_MAX};
    hk_section_end(&entry); /* the timer seems to have gone back */
    CHECK_EQ(timings.dropped, 1);
    entry.start = 0;
    entry.cpu = -2; /* on another core */
    hk_section_end(&entry);
    CHECK_EQ(timings.dropped, 2);
    CHECK_EQ(timings.sampled, 0);
    CHECK_EQ(timings.cycles, 0);
    CHECK_EQ(timings.max, 0);
    while (timings.sampled == 0) {
        entry.cpu = hk_os_cpu();
        hk_section_end(&entry);
    }
    CHECK_EQ(timings.cycles, timings.max);
    CHECK(timings.max != 0);
}

/* ---- threads ---- */

enum { THREADS = 4 };

typedef struct {
    misses_t misses;
    void *left; /* for the first thread to free */
} life_t;

static void *live(void *argument) {
    life_t *life = argument;
    hak_free(hak_malloc(1)); /* gets its cache; not among these misses */
    life->misses = work();
    life->left = hak_malloc(200);
    return NULL;
}

/* A thread's first allocation comes to the boundary in any case, and so may the C library's calls for the thread. Idle
 * threads show how many these are. */
static void *idle(void *argument) {
    life_t *life = argument;
    hak_free(hak_malloc(1));
    life->left = hak_malloc(200);
    return NULL;
}

static void generation(void *(*life)(void *), uint64_t *mallocs, uint64_t *frees, life_t *lives) {
    pthread_t ids[THREADS];
    hk_sections_sum_t before = now();
    for (unsigned i = 0; i < THREADS; i++) {
        hk_trim(); /* else a record that many threads have used keeps its magazines */
        CHECK(pthread_create(&ids[i], NULL, life, &lives[i]) == 0);
        CHECK(pthread_join(ids[i], NULL) == 0);
    }
    hk_sections_sum_t after = now();
    *mallocs = SINCE(&before, &after, malloc_slow, count);
    *frees = SINCE(&before, &after, free_slow, count);
    for (unsigned i = 0; i < THREADS; i++)
        hak_free(lives[i].left);
}

/* Entries of ended threads stay in the sums. */
static void ended_threads(void) {
    life_t lives[THREADS] = {0};
    uint64_t mallocs, frees, idle_mallocs, idle_frees;
    sample("1");
    generation(idle, &idle_mallocs, &idle_frees, lives);
    generation(idle, &idle_mallocs, &idle_frees, lives);
    generation(live, &mallocs, &frees, lives);
    uint64_t expected_mallocs = idle_mallocs, expected_frees = idle_frees;
    for (unsigned i = 0; i < THREADS; i++) {
        expected_mallocs += lives[i].misses.mallocs;
        expected_frees += lives[i].misses.frees;
    }
    CHECK_EQ(mallocs, expected_mallocs);
    CHECK_EQ(frees, expected_frees);
}

/* Entries count although the thread has no record: at its first allocation, and past its end. */
#ifdef __SANITIZE_THREAD__
enum { LAST_ROUND = 3 }; /* as in test_trap.c */
#else
enum { LAST_ROUND = 4 };
#endif
static pthread_key_t late;
static unsigned rounds;

static void past_the_end(void *record) {
    if (++rounds < LAST_ROUND) {
        CHECK(pthread_setspecific(late, record) == 0);
        return;
    }
    CHECK(self() == NULL);
    hk_sections_sum_t before = now();
    hak_free(hak_malloc(100));
    hk_sections_sum_t after = now();
    CHECK_EQ(SINCE(&before, &after, malloc_slow, count), 1);
    CHECK_EQ(SINCE(&before, &after, free_slow, count), 1);
}

static void *live_and_come_late(void *unused) {
    CHECK(self() == NULL);
    hk_sections_sum_t before = now();
    hak_free(hak_malloc(100));
    hk_sections_sum_t first = now();
    CHECK_EQ(SINCE(&before, &first, malloc_slow, count), 1);
    CHECK(pthread_setspecific(late, self()) == 0);
    return unused;
}

static void without_a_record(void) {
    pthread_t id;
    sample("1");
    CHECK(pthread_key_create(&late, past_the_end) == 0);
    hk_trim();
    CHECK(pthread_create(&id, NULL, live_and_come_late, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
    CHECK_EQ(rounds, LAST_ROUND);
}

static void *free_all(void *blocks) {
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(((void **)blocks)[i]);
    return NULL;
}

/* The owner's collection of blocks that another thread freed is an entry of its own section. */
static void remote_frees(void) {
    static void *blocks[BLOCKS];
    pthread_t id;
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = hak_malloc(100)) != NULL);
    hk_sections_sum_t before = now();
    CHECK(pthread_create(&id, NULL, free_all, blocks) == 0);
    CHECK(pthread_join(id, NULL) == 0);
    work();
    hk_sections_sum_t after = now();
    CHECK(SINCE(&before, &after, collect, count) > 0);
}

/* While threads work, sampling is switched on and off and the sums are read: they never decrease. */
static atomic_bool enough;

static void *work_on(void *unused) {
    hak_free(hak_malloc(1)); /* gets its cache */
    while (!atomic_load(&enough))
        work();
    return unused;
}

static void busy(void) {
    static const char *const every[] = {"1", "0", "3", "1000000000"};
    pthread_t ids[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, work_on, NULL) == 0);
    hk_sections_sum_t before = now();
    for (unsigned i = 0; i < 200; i++) {
        sample(every[i % 4]);
        usleep(500);
        hk_sections_sum_t after = now();
        for (unsigned s = 0; s < HK_SECTION_COUNT; s++) {
            CHECK(after.of[s].count >= before.of[s].count);
            CHECK(after.of[s].cycles >= before.of[s].cycles);
        }
        before = after;
    }
    atomic_store(&enough, true);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    hk_sections_sum_t quiet = now();
    CHECK(quiet.of[HK_SECTION_refill].sampled + quiet.of[HK_SECTION_refill].dropped <=
          quiet.of[HK_SECTION_refill].count);
}

/* ---- processes ---- */

static void in_child(void *unused) {
    (void)unused;
    hk_sections_sum_t first = now();
    CHECK_EQ(first.sample, 1);
    CHECK(first.overhead != 0);
    misses_t misses = work();
    hk_sections_sum_t sum = now();
    CHECK_EQ(first.of[HK_SECTION_malloc_slow].count, 0);
    CHECK_EQ(first.of[HK_SECTION_refill].cycles, 0);
    CHECK_EQ(first.of[HK_SECTION_refill].max, 0);
    CHECK_EQ(sum.of[HK_SECTION_malloc_slow].count, misses.mallocs);
    CHECK_EQ(sum.of[HK_SECTION_free_slow].count, misses.frees);
}

/* A fork's child counts from zero; sampling stays on. */
static void child_starts_anew(void) {
    static child_t child;
    sample("1");
    work();
    child_run(&child, in_child, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

/* ---- observed threads ---- */

/* On an observed thread hits come to the boundary to be counted, but are no entries of the slow sections. */
static void observed(void) {
    sample("1");
    CHECK_EQ(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "1", NULL, 0), 0);
    hak_free(hak_malloc(100)); /* acts on its new plan */
    hk_sections_sum_t before = now();
    for (unsigned i = 0; i < 1000; i++)
        hak_free(hak_malloc(100));
    hk_sections_sum_t hits = now();
    CHECK_EQ(SINCE(&before, &hits, malloc_slow, count), 0);
    CHECK_EQ(SINCE(&before, &hits, free_slow, count), 0);
    misses_t misses = work();
    hk_sections_sum_t after = now();
    CHECK_EQ(SINCE(&hits, &after, malloc_slow, count), misses.mallocs);
    CHECK_EQ(SINCE(&hits, &after, free_slow, count), misses.frees);
    CHECK_EQ(hak_ctl("HAKMEM_TINY_FRONT_METRICS", "0", NULL, 0), 0);
    hak_free(hak_malloc(100));
}

int main(void) {
    hk_store_relaxed(&hk_config.lean, 0); /* nobody collects or purges but this test */
    hak_free(hak_malloc(1));
    off_from_the_start();
    counts();
    larger_blocks();
    purges();
    sums();
    every_nth(7, "7");
    every_nth(10, "10");
    dropped_timings();
    ended_threads();
    without_a_record();
    remote_frees();
    child_starts_anew();
    observed();
    off_again();
    busy();
    return 0;
}
