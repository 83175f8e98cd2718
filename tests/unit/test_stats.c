/* Statistics: exact for blocks that are known, wherever freed ones wait; equations hold; counters
 * only grow while threads run; old and new programs agree on the struct. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "backend/heap.h"
#include "base/calls.h"
#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/thread.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "stats/counters.h"

static hak_stats_t now(void) {
    hak_stats_t stats = {.size = sizeof stats};
    CHECK_EQ(hak_stats_get(&stats), 0);
    CHECK_EQ(stats.size, sizeof stats);
    CHECK_EQ(stats.version, 2);
    return stats;
}

/* ---- equations ---- */

static void check_equations(const hak_stats_t *s) {
    hak_stats_band_t sum = {0};
    for (unsigned i = 0; i < HAK_STATS_BANDS; i++) {
        const hak_stats_band_t *band = &s->bands[i];
        CHECK_EQ(band->allocated + band->magazines, band->active);
        CHECK(band->active + band->free <= band->carved);
        CHECK(band->remote <= band->free);
        sum.allocated += band->allocated;
        sum.magazines += band->magazines;
        sum.active += band->active;
        sum.free += band->free;
        sum.remote += band->remote;
        sum.carved += band->carved;
    }
    CHECK_EQ(s->allocated, sum.allocated);
    CHECK_EQ(s->magazines, sum.magazines);
    CHECK_EQ(s->active, sum.active);
    CHECK_EQ(s->free, sum.free);
    CHECK_EQ(s->remote, sum.remote);
    CHECK_EQ(s->carved, sum.carved);
    CHECK(s->resident <= s->mapped);
    CHECK_EQ(s->resident + s->retained, s->mapped);
    CHECK(s->dirty + s->lazy <= s->resident);
    CHECK(s->mapped <= s->peak_mapped);
    uint64_t calls = 0;
#define HK_CALL_KIND(kind, field, doc) calls += s->field;
#include "base/calls.def"
#undef HK_CALL_KIND
    CHECK_EQ(s->calls, calls);
}

/* ---- known blocks ---- */

enum { PER_CLASS = 70, LARGE = 3, HUGE = 2 };
#define LARGE_BYTES (200 * HK_KIB) /* four slices */
#define HUGE_BYTES (5 * HK_MIB)    /* three units */

static void *small[HK_CLASS_FIXED][PER_CLASS], *large[LARGE], *huge[HUGE];

static void *touched(size_t n) {
    char *p = hak_malloc(n);
    CHECK(p != NULL);
    for (size_t at = 0; at < n; at += 4096)
        p[at] = 1;
    return p;
}

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

/* The program holds `per_class` blocks of each class, and so many others, more than it did. */
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

    /* what the thread freed has left its magazines, and is not collected */
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

/* ---- memory ---- */

static void flush_all(void) {
    hk_thread_t *self = hk_thread_enter();
    hk_thread_flush(self);
    hk_heap_collect(&self->heap);
    hk_thread_leave(self);
}

/* Descriptors are resident too. Comes first: later ones are used again. */
static void resident_metadata(void) {
    enum { BLOCKS = 6144, SIZE = 4096 };
    static void *blocks[BLOCKS];
    hak_stats_t before = now();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    hak_stats_t after = now();
    uint64_t superslabs =
        (after.mapped - after.metadata - before.mapped + before.metadata) / HK_UNIT;
    CHECK(superslabs >= 10);
    /* an eighth is left to what the thread's heap and magazines were before */
    uint64_t descriptors = superslabs * HK_SLICES * sizeof(hk_slab_t);
    CHECK(after.resident - before.resident >=
          after.carved - before.carved - HK_SLICE + descriptors / 8 * 7);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Freed memory is dirty until it is purged: OS pages of slabs with no live block on them, and slabs
 * that are free. */
static void dirty_memory(void) {
    enum { SIZE = 2048, PAGE = 4096, BLOCKS = 4000, GROUP = 8, SLACK = 64 * PAGE };
    static void *blocks[BLOCKS];
    if (getpagesize() != PAGE)
        return;
    hk_trim();
    hak_stats_t before = now();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    hak_stats_t full = now();
    CHECK(full.resident - before.resident >= BLOCKS * SIZE);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        hak_free(blocks[i]);
    flush_all();
    hak_stats_t half = now(); /* one block of each page lives */
    CHECK_EQ(half.resident, full.resident);
    CHECK(half.dirty <= full.dirty + SLACK);
    for (unsigned i = 1; i < BLOCKS; i += 2)
        if (i % GROUP != 1)
            hak_free(blocks[i]);
    flush_all();
    hak_stats_t eighth = now(); /* one block of each four pages does */
    CHECK(eighth.dirty + SLACK >= full.dirty + BLOCKS * SIZE / 4 * 3);
    CHECK(eighth.dirty <= full.dirty + BLOCKS * SIZE / 4 * 3 + SLACK);
    for (unsigned i = 1; i < BLOCKS; i += GROUP)
        hak_free(blocks[i]);
    flush_all();
    hak_stats_t empty = now();
    CHECK(empty.dirty + SLACK >= full.dirty + BLOCKS * SIZE);
    hk_trim();
    hak_stats_t trimmed = now();
    CHECK(trimmed.dirty + BLOCKS * SIZE <= empty.dirty + SLACK);
    CHECK(trimmed.resident + BLOCKS * SIZE <= empty.resident + SLACK);
    check_equations(&trimmed);
}

/* A trim is a purge like those of the purger: a run, with its calls, bytes and time, if it gives
 * anything back. */
static void trims_are_counted(void) {
    enum { SIZE = 3000, BLOCKS = 1000 };
    static void *blocks[BLOCKS];
    hk_trim();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(SIZE);
    hak_free(touched(HUGE_BYTES / 2)); /* into the cache of ranges */
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_stats_t before = now();
    CHECK(before.cached != 0);
    CHECK(hk_trim());
    hak_stats_t after = now();
    CHECK_EQ(after.cached, 0);
    CHECK_EQ(after.purge_runs - before.purge_runs, 1);
    CHECK(after.purge_calls - before.purge_calls >= 2);
    CHECK(after.purge_bytes - before.purge_bytes >= before.cached + BLOCKS * SIZE / 2);
    CHECK(after.purge_ns > before.purge_ns);
    CHECK(after.superslabs_retired - before.superslabs_retired >= before.cached / HK_UNIT);
    while (hk_trim())
        continue;
    uint64_t runs = now().purge_runs;
    CHECK(!hk_trim());
    CHECK_EQ(now().purge_runs, runs);
}

/* Where no file can be opened the figures are nearly the same: what was only ever read is resident
 * then, and the process's peak is not known. */
static void without_files(void) {
    struct rlimit limit;
    void *block = touched(HUGE_BYTES);
    hak_stats_t before = now();
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}) == 0);
    hak_stats_t blind = now();
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK_EQ(blind.peak_resident, 0);
    CHECK(blind.mincore > before.mincore);
    CHECK(blind.resident >= before.resident);
    CHECK(blind.resident - before.resident <= 256 * HK_KIB);
    CHECK(blind.dirty >= before.dirty);
    hak_free(block);
}

static void peaks(void) {
    hak_stats_t before = now();
    hak_free(touched(before.peak_mapped + HUGE_BYTES));
    hak_stats_t after = now();
    CHECK(after.peak_mapped >= before.peak_mapped + HUGE_BYTES);
    CHECK(after.peak_resident == 0 || after.peak_resident >= after.resident);
    CHECK_EQ(after.huge_allocs - before.huge_allocs, 1);
    CHECK(hak_malloc((size_t)1 << 47) == NULL);
    CHECK(now().huge_failures > after.huge_failures);
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
#define HK_CALL_KIND(kind, field, doc) HK_COUNTER(field, "calls", doc)
#include "base/calls.def"
#include "stats/counters.def"
#undef HK_CALL_KIND
#undef HK_COUNTER
#undef HK_HEAP_COUNTER
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

/* ---- calls to the system ---- */

static uint64_t counts_before[HK_CALL_KINDS];

/* Since the last time so many calls of a kind were made, and none of another. */
static void check_made(hk_call_t kind, uint64_t n) {
    uint64_t counts[HK_CALL_KINDS];
    hk_calls_read(counts);
    for (unsigned i = 0; i < HK_CALL_KINDS; i++)
        CHECK_EQ(counts[i] - counts_before[i], i == (unsigned)kind ? n : 0);
    memcpy(counts_before, counts, sizeof counts);
}

static void calls_by_kind(void) {
    enum { SPUN = 0, SLEPT = 128 }; /* tries, base/lock.c */
    const size_t page = hk_os_page_size();
    _Atomic uint32_t word = 1;
    unsigned char resident[1];
    hk_calls_read(counts_before);
    char *p = hk_os_map(page, page), *q = hk_os_map(page, page), *reserved = hk_os_reserve(page);
    CHECK(p != NULL && q != NULL && reserved != NULL);
    check_made(HK_CALL_mmap, 3);
    CHECK(hk_os_commit(reserved, page));
    check_made(HK_CALL_mprotect, 1);
    CHECK_EQ(hk_os_advise((hk_os_range_t[]){{p, page}, {q, page}}, 2, HK_PURGE).done, 2);
    check_made(HK_CALL_madvise, 2);
    CHECK(hk_os_move(p, page, q, page));
    check_made(HK_CALL_mremap, 1);
    CHECK(hk_os_look(&(hk_os_look_t){-1}, q, page, resident));
    check_made(HK_CALL_mincore, 1);
    CHECK(hk_os_unmap(q, page) && hk_os_unmap(reserved, page));
    check_made(HK_CALL_munmap, 2);
    CHECK(!hk_os_commit(q, page)); /* what is refused is a call too */
    check_made(HK_CALL_mprotect, 1);
    hk_os_wait(&word, 0, 0);
    hk_os_wake(&word);
    check_made(HK_CALL_futex, 2);
    hk_lock_pause(SPUN);
    check_made(HK_CALL_other, 0);
    hk_lock_pause(SLEPT);
    check_made(HK_CALL_futex, 1);
#if HK_DEBUG
    hk_os_fail_after(0);
    CHECK(hk_os_map(page, page) == NULL);
    hk_os_fail_after(-1);
    check_made(HK_CALL_mmap, 0);
#endif
}

/* ---- a forked child ---- */

static void child(const hak_stats_t *parent) {
    uint64_t counts[HK_CALL_KINDS];
    CHECK_EQ(hk_calls_read(counts), 0);
#define HK_COUNTER(name, unit, doc) CHECK_EQ(hk_counted(name), 0);
#define HK_HEAP_COUNTER(name, unit, doc) CHECK_EQ(hk_heap_counted(HK_HEAP_COUNT_##name), 0);
#include "stats/counters.def"
#undef HK_COUNTER
#undef HK_HEAP_COUNTER
    hak_stats_t s = now();
    check_equations(&s);
    CHECK_EQ(s.other_calls + s.mincore, s.calls); /* what asking takes */
    CHECK_EQ(s.mapped, parent->mapped);
    CHECK_EQ(s.allocated, parent->allocated);
    CHECK_EQ(s.peak_mapped, parent->peak_mapped);
}

static void forked(void) {
    hak_stats_t before = now();
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
}

/* ---- the interface ---- */

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
    hk_thread_t *self = hk_thread_enter(); /* what a signal handler may find */
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(hak_stats_get(&stats) == -1 && errno == EBUSY);
    hk_thread_leave(self);
    CHECK_EQ(hak_stats_get(&stats), 0);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean, 0); /* nobody collects or purges but this test */
    hk_store_relaxed(&hk_config.thp, 0);  /* huge pages bring memory that nobody has touched */
    hak_free(hak_malloc(1));
    resident_metadata();
    own_frees();
    frees_of_another();
    dirty_memory();
    trims_are_counted();
    without_files();
    peaks();
    running_threads();
    adoptions();
    calls_by_kind();
    forked();
    sizes_of_the_struct();
    refusals();
    return 0;
}
