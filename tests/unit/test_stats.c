/* Statistics: exact for known blocks, wherever freed blocks wait; the equations hold; counters only grow while threads
 * run; programs built with an older or newer struct get the fields that they know. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "backend/heap.h"
#include "base/calls.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/thread.h"
#include "os/os.h"
#include "stats/emit.h"
#include "stats_now.h"

/* ---- known blocks ---- */

enum { PER_CLASS = 70, LARGE = 3, HUGE = 2 };
#define LARGE_BYTES (200 * HK_KIB) /* four slices */
#define HUGE_BYTES (5 * HK_MIB)    /* three units */

static void *small[HK_CLASS_FIXED][PER_CLASS], *large[LARGE], *huge[HUGE];

static void allocate_known(void) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        for (unsigned i = 0; i < PER_CLASS; i++)
            small[cls][i] = touched(hk_classes[cls].size);
    for (unsigned i = 0; i < LARGE; i++)
        large[i] = touched(LARGE_BYTES);
    for (unsigned i = 0; i < HUGE; i++)
        huge[i] = touched(HUGE_BYTES);
}

/* Blocks [from, to) of each class. */
static void free_known(unsigned from, unsigned to) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        for (unsigned i = from; i < to; i++)
            hak_free(small[cls][i]);
}

/* Since `before` the program has got `per_class` blocks of each class, `larges` large and `huges` huge ones. */
static void check_more(const hak_stats_t *before, unsigned per_class, unsigned larges,
                       unsigned huges) {
    hak_stats_t s = now();
    hak_stats_band_t want[HAK_STATS_BANDS] = {0};
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        want[hk_classes[cls].band].blocks += per_class;
        want[hk_classes[cls].band].allocated += (uint64_t)per_class * hk_classes[cls].size;
    }
    want[HAK_BAND_LARGE].blocks = larges;
    want[HAK_BAND_LARGE].allocated = larges * 4 * HK_SLICE;
    want[HAK_BAND_HUGE].blocks = huges;
    want[HAK_BAND_HUGE].allocated = huges * 3 * HK_UNIT;
    for (unsigned i = 0; i < HAK_STATS_BANDS; i++) {
        CHECK_EQ(s.bands[i].blocks - before->bands[i].blocks, want[i].blocks);
        CHECK_EQ(s.bands[i].allocated - before->bands[i].allocated, want[i].allocated);
    }
    check_equations(&s);
}

static void own_frees(void) {
    hak_stats_t before = now();
    allocate_known();
    check_more(&before, PER_CLASS, LARGE, HUGE);
    free_known(0, 30);
    check_more(&before, PER_CLASS - 30, LARGE, HUGE);
    hak_free(large[0]);
    hak_free(huge[0]);
    check_more(&before, PER_CLASS - 30, LARGE - 1, HUGE - 1);
    huge[1] = hak_realloc(huge[1], HUGE_BYTES / 2); /* two units */
    hak_stats_t shrunk = now();
    CHECK_EQ(shrunk.bands[HAK_BAND_HUGE].allocated - before.bands[HAK_BAND_HUGE].allocated,
             2 * HK_UNIT);
    free_known(30, PER_CLASS);
    hak_free(large[1]);
    hak_free(large[2]);
    hak_free(huge[1]);
    check_more(&before, 0, 0, 0);
}

/* ---- another thread frees, and leaves some of its own ---- */

static pthread_barrier_t step;
static void *left_behind[HK_CLASS_FIXED];

static void *free_and_leave(void *unused) {
    pthread_barrier_wait(&step); /* 1: main has allocated */
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        left_behind[cls] = hak_malloc(hk_classes[cls].size);
    free_known(0, 40);
    hak_free(large[0]);
    hak_free(huge[0]);
    pthread_barrier_wait(&step); /* 2: the blocks are in magazines, or remote */
    pthread_barrier_wait(&step); /* 3: main has looked */
    return unused;
}

static void frees_of_another(void) {
    pthread_t thread;
    CHECK(pthread_barrier_init(&step, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, free_and_leave, NULL) == 0);
    hak_stats_t before = now();
    allocate_known();
    hak_stats_t full = now();
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    check_more(&before, PER_CLASS - 40 + 1, LARGE - 1, HUGE - 1);
    pthread_barrier_wait(&step);
    CHECK(pthread_join(thread, NULL) == 0);
    check_more(&before, PER_CLASS - 40 + 1, LARGE - 1, HUGE - 1);

    /* the thread's end emptied its magazines: its frees are remote, and not collected yet */
    hak_stats_t ended = now();
    uint64_t freed = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        freed += 40 * (uint64_t)hk_classes[cls].size;
    CHECK_EQ(ended.remote - full.remote, freed);
    CHECK_EQ(ended.remote_frees - full.remote_frees, 40 * (HK_CLASS_FIXED - 1));
    hk_thread_t *self = hk_thread_enter();
    hk_heap_collect(&self->heap);
    hk_thread_leave(self);
    hak_stats_t collected = now();
    CHECK_EQ(collected.remote, full.remote);
    CHECK_EQ(collected.allocated, ended.allocated);
    CHECK(collected.collects > ended.collects);

    free_known(40, PER_CLASS);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        hak_free(left_behind[cls]);
    hak_free(large[1]);
    hak_free(large[2]);
    hak_free(huge[1]);
    check_more(&before, 0, 0, 0);
    pthread_barrier_destroy(&step);
}

/* Frees by a thread that has no record yet count as remote frees. */
static void *free_two(void *unused) {
    hak_free(left_behind[1]);
    hak_free(left_behind[2]);
    return unused;
}

static void frees_without_a_record(void) {
    pthread_t thread;
    left_behind[1] = hak_malloc(8);
    left_behind[2] = hak_malloc(16);
    hak_stats_t before = now();
    CHECK(pthread_create(&thread, NULL, free_two, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    hak_stats_t after = now();
    CHECK_EQ(after.remote_frees - before.remote_frees, 2);
    CHECK(before.allocated - after.allocated >= 24);
}

/* ---- while threads run ---- */

enum { CHURNERS = 3, LOOKS = 60, SLOTS = 256 };
static atomic_bool stop;
static _Atomic(void *) shared_slots[SLOTS];

static void *churn(void *seed) {
    uint64_t state = (uintptr_t)seed * 7919 + 1;
    while (!atomic_load(&stop)) {
        void *mine = hak_malloc(chance_below(&state, 3000));
        hak_free(atomic_exchange(&shared_slots[chance_below(&state, SLOTS)], mine));
    }
    return NULL;
}

static void check_counters_grow(const hak_stats_t *before, const hak_stats_t *after) {
#define HK_COUNTER(name, unit, doc) CHECK(after->name >= before->name);
#define HK_HEAP_COUNTER HK_COUNTER
#include "base/counters.def"
    CHECK(after->peak_mapped >= before->peak_mapped);
}

static void running_threads(void) {
    pthread_t threads[CHURNERS];
    hak_stats_t first = now();
    for (uintptr_t i = 0; i < CHURNERS; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, (void *)i) == 0);
    hak_stats_t before = first;
    for (unsigned i = 0; i < LOOKS; i++) {
        hak_stats_t after = now();
        check_counters_grow(&before, &after);
        before = after;
        usleep(1000);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < CHURNERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (unsigned i = 0; i < SLOTS; i++)
        hak_free(atomic_exchange(&shared_slots[i], NULL));
    hak_stats_t last = now();
    check_counters_grow(&before, &last);
    check_equations(&last);
    CHECK(last.refills > first.refills);
    CHECK(last.remote_frees > first.remote_frees);
}

/* ---- adoption ---- */

enum { ORPHAN_BYTES = 24576, ORPHAN_BLOCKS = 35, TAKEN = 64 };
static void *orphaned[ORPHAN_BLOCKS];

static void *allocate_and_end(void *unused) {
    for (unsigned i = 0; i < ORPHAN_BLOCKS; i++)
        orphaned[i] = hak_malloc(ORPHAN_BYTES);
    for (unsigned i = 1; i < ORPHAN_BLOCKS; i++)
        hak_free(orphaned[i]);
    return unused;
}

/* An ended thread's slabs are adopted, which is counted. */
static void adoptions(void) {
    static void *taken[TAKEN];
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_and_end, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    hak_stats_t before = now();
    for (unsigned i = 0; i < TAKEN; i++)
        taken[i] = hak_malloc(ORPHAN_BYTES);
    hak_stats_t after = now();
    CHECK(after.adoptions > before.adoptions);
    CHECK_EQ(after.allocated - before.allocated, TAKEN * ORPHAN_BYTES);
    for (unsigned i = 0; i < TAKEN; i++)
        hak_free(taken[i]);
    hak_free(orphaned[0]);
}

/* ---- a forked child ---- */

static void child(const hak_stats_t *parent) {
#define HK_COUNTER(name, unit, doc) CHECK_EQ(hk_counted(name), 0);
#define HK_HEAP_COUNTER(name, unit, doc) CHECK_EQ(hk_heap_counted(HK_HEAP_COUNT_##name), 0);
#include "base/counters.def"
    hak_stats_t s = now();
    check_equations(&s);
    CHECK_EQ(s.other_calls + s.mincore, s.calls); /* the calls that reading the statistics takes */
    CHECK_EQ(s.mapped, parent->mapped);
    CHECK_EQ(s.allocated, parent->allocated);
    CHECK_EQ(s.peak_mapped, parent->peak_mapped);
    CHECK_EQ(s.faults, 0);
    hk_count(faults, 1);
    CHECK_EQ(now().faults, 1);
}

/* The lock of statistics being written is free in a fork's child, whichever thread held it. */
static void child_may_write(void) {
    hk_lock(&hk_writing);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(hk_lock_is_taken(&hk_writing));
    hk_unlock(&hk_writing);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* In a fork's child all counters start at zero and the heap's figures are the parent's; the parent's are unchanged. */
static void forked(void) {
    hk_count(faults, 2); /* as if two faults had been reported */
    hak_stats_t before = now();
    CHECK_EQ(before.faults, 2);
    CHECK(before.calls != 0 && before.refills != 0 && before.region_maps != 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child(&before);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    hak_stats_t after = now();
    check_counters_grow(&before, &after);
    CHECK_EQ(after.faults, 2);
}

/* ---- the interface ---- */

/* Figures of any length are separated by spaces. */
static void long_figures(void) {
    enum { LINES = 64 };
    static char text[32768];
    hk_figures_t figures;
    memset(&figures, 0xFF, sizeof figures);
    FILE *file = tmpfile();
    CHECK(file != NULL && hk_emit_stats(fileno(file), HAK_STATS_TEXT, &figures) == 0);
    CHECK(pread(fileno(file), text, sizeof text - 1, 0) > 0);
    fclose(file);
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, "18446744073709551615")) != NULL; at++, found++)
        CHECK(at[-1] == ' ' && (at[20] == ' ' || at[20] == '\n'));
    CHECK(found > LINES);
}

static void sizes_of_the_struct(void) {
    union {
        hak_stats_t stats;
        unsigned char bytes[sizeof(hak_stats_t) + 64];
    } u;
    memset(&u, 0xA5, sizeof u);
    u.stats.size = offsetof(hak_stats_t, metadata); /* an old program */
    CHECK_EQ(hak_stats_get(&u.stats), 0);
    CHECK_EQ(u.stats.size, offsetof(hak_stats_t, metadata));
    CHECK_EQ(u.stats.allocated, now().allocated);
    for (size_t i = offsetof(hak_stats_t, metadata); i < sizeof u; i++)
        CHECK_EQ(u.bytes[i], 0xA5);
    u.stats.size = sizeof u; /* a newer one */
    CHECK_EQ(hak_stats_get(&u.stats), 0);
    CHECK_EQ(u.stats.size, sizeof(hak_stats_t));
    CHECK(u.stats.metadata != 0);
    u.stats.size = 4;
    CHECK(hak_stats_get(&u.stats) == -1 && errno == EINVAL);
    CHECK(hak_stats_get(NULL) == -1 && errno == EINVAL);
}

static void refusals(void) {
    CHECK(hak_stats_print(STDERR_FILENO, (hak_stats_format_t)17) == -1 && errno == EINVAL);
    CHECK(hak_stats_print(-1, HAK_STATS_JSON) == -1 && errno == EBADF);
    int full = open("/dev/full", O_WRONLY);
    if (full >= 0) {
        CHECK(hak_stats_print(full, HAK_STATS_TEXT) == -1 && errno == ENOSPC);
        close(full);
    }
    hk_thread_t *self = hk_thread_enter(); /* as in a handler that interrupted the boundary */
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(hak_stats_get(&stats) == -1 && errno == EBUSY);
    hk_thread_leave(self);
    CHECK_EQ(hak_stats_get(&stats), 0);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean, 0); /* nobody collects or purges but this test */
    hk_store_relaxed(&hk_config.thp, 0);  /* huge pages bring memory that nobody has touched */
    hak_free(hak_malloc(1));
    own_frees();
    frees_of_another();
    frees_without_a_record();
    running_threads();
    adoptions();
    forked();
    child_may_write();
    sizes_of_the_struct();
    refusals();
    long_figures();
    return 0;
}
