/* The guard: exact block sizes, what it detects and when, and that the process goes on with
 * HAKMEM_ON_FAULT=report. The process starts unguarded, so that it has blocks from before the guard. */
#include <errno.h>
#include <pthread.h>

#include "backend/superslab_own.h"
#include "faults.h"
#include "front/watched.h"
#include "guard/tail.h"
#include "stats_now.h"

/* ---- sizes ---- */

/* Whether the usable size is exactly n. Without fences, where OS pages are too large for them, large
 * blocks are rounded up as in an unguarded process. */
static bool is_exact(size_t n) { return hk_guard->fences || (n != 0 && n < HK_MID_MAX); }

/* Each block's usable size must be the bytes asked for, it must read as zero, and be aligned as asked. */
static void exact_sizes(void) {
    static const size_t sizes[] = {1,      7,       8,    9,     15,    16,     100,
                                   128,    1000,    1024, 4096,  32766, 32767,  32768,
                                   100000, 2097152, 0,    40000, 65536, 5000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p = hak_malloc(sizes[i]);
        CHECK(p != NULL);
        CHECK(hak_usable_size(p) >= sizes[i]);
        if (is_exact(sizes[i]))
            CHECK_EQ(hak_usable_size(p), sizes[i]);
        for (size_t at = 0; at < sizes[i] && is_exact(sizes[i]); at++)
            CHECK_EQ(p[at], 0);
        if (sizes[i] != 0)
            memset(p, 0x5a, sizes[i]);
        hak_free(p);
    }
    for (size_t align = 16; align <= 4 * HK_MIB; align *= 2)
        for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            unsigned char *p = hak_aligned_alloc(align, sizes[i]);
            CHECK(p != NULL && hk_is_aligned((uintptr_t)p, align));
            CHECK(hak_usable_size(p) >= sizes[i]);
            if (sizes[i] != 0)
                memset(p, 0x5a, sizes[i]);
            hak_free(p);
        }
}

static void realloc_keeps(void) {
    uint64_t random = 7;
    unsigned char *p = NULL;
    size_t n = 0;
    for (unsigned i = 0; i < 3000; i++) {
        const size_t more = 1 + chance_below(&random, i % 10 == 0 ? 200000 : 3000);
        p = hak_realloc(p, more);
        CHECK(p != NULL && hak_usable_size(p) >= more);
        CHECK(!is_exact(more) || hak_usable_size(p) == more);
        for (size_t at = 0; at < hk_min(n, more); at++)
            CHECK_EQ(p[at], (unsigned char)(at * 7 + i - 1));
        for (size_t at = 0; at < more; at++)
            p[at] = (unsigned char)(at * 7 + i);
        n = more;
    }
    hak_free(p);
}

/* ---- zeros ---- */

/* hk_is_zero(), hk_not_zero() and hk_zero() at all lengths and offsets; neighbouring bytes must not
 * matter or change. */
static void zeros_are_seen_and_made(void) {
    enum { MOST = 2 * HK_KIB + 320, EDGE = 64, STEP = 61 };
    static _Alignas(16) char at[EDGE + MOST + EDGE];
    for (size_t n = 0; n <= MOST; n += n < 600 ? 1 : STEP) {
        char *p = at + EDGE - n % 16;
        memset(at, 0, sizeof at);
        p[-1] = p[n] = 'x';
        CHECK(hk_is_zero(p, n) && hk_not_zero(p, n) == SIZE_MAX);
        for (size_t i = 0; i < n; i += n < 100 ? 1 : STEP) {
            p[i] = 'x';
            CHECK(!hk_is_zero(p, n) && hk_not_zero(p, n) == i);
            p[i] = 0;
        }
    }
    for (size_t n = 0; n <= MOST; n += 8) {
        memset(at, 'x', sizeof at);
        hk_zero(at + EDGE, n);
        CHECK(hk_is_zero(at + EDGE, n) && at[EDGE - 1] == 'x' && at[EDGE + n] == 'x');
    }
}

/* Where freed blocks are cleared only in part, as where they are cleared as a whole, a block of
 * calloc's reads as zero throughout. */
static void calloc_clears_the_rest(void *zeroed) {
    enum { BLOCKS = 300, MOST = 3000, STEP = 131 };
    static char *blocks[BLOCKS];
    hk_store_relaxed(&hk_config.guard_zero, *(const unsigned *)zeroed);
    hk_store_relaxed(&hk_config.guard_quarantine_kb, 0u);
    guard();
    for (size_t n = 1; n < MOST; n += STEP)
        for (unsigned round = 0; round < 2; round++) {
            for (unsigned i = 0; i < BLOCKS; i++) {
                blocks[i] = round == 0 ? hak_malloc(n) : hak_calloc(1, n);
                CHECK(blocks[i] != NULL && (round == 0 || hk_is_zero(blocks[i], n)));
                memset(blocks[i], 'x', n);
            }
            for (unsigned i = 0; i < BLOCKS; i++)
                hak_free(blocks[i]);
        }
}

/* ---- detection ---- */

/* Frees, size queries and reallocs of freed blocks or inner addresses must be reported at once. */
static void found_at_once(void) {
    char *p = hak_malloc(40);
    CHECK_FAULT(free_it, p + 8, "invalid free", "");
    CHECK_FAULT(ask_size, p + 8, "invalid pointer", "");
    hak_free(p);
    CHECK_FAULT(free_it, p, "double free", "");
    CHECK_FAULT(ask_size, p, "invalid pointer", "");
    CHECK_FAULT(resize_it, p, "invalid pointer", "");
    if (!hk_guard->fences)
        return;
    p = hak_malloc(50000);
    CHECK_FAULT(free_it, p + 16, "invalid free", "");
    hak_free(p);
    CHECK_FAULT(free_it, p, "double free", ", a block of 50000 bytes");
}

/* A change of any byte of the tail, to any of several values, must be reported as an overflow. */
static void found_in_the_tail(void) {
    for (unsigned n = 1; n < 300; n += 37)
        for (size_t at = n; at < n + 12; at++) {
            char *p = hak_malloc(n);
            const size_t room = hk_classes[hk_map_kind(p)].size;
            char *byte = hidden(p + at);
            for (unsigned value = 0; value < 256 && at < room; value += 51) {
                const char before = *byte;
                *byte = (char)value;
                char rest[64];
                snprintf(rest, sizeof rest, ", a block of %u byte%s, at byte %zu", n,
                         n == 1 ? "" : "s", at);
                if (*byte != before)
                    CHECK_FAULT(free_it, p, "overflow", rest);
                *byte = before;
            }
            hak_free(p);
        }
}

static void take_and_free(void *n) {
    for (unsigned i = 0; i < 20000; i++)
        hak_free(hidden(hak_malloc(*(size_t *)n)));
}

/* A write to a freed block must be reported before the block is handed out again. */
static void found_before_reuse(void) {
    static const size_t at[] = {0, 1, 63, 64, 500, 1023, 1024, 1504, 1535};
    for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++) {
        size_t n = 1500;
        char *p = hak_malloc(n);
        hak_free(p);
        ((char *)hidden(p))[at[i]] = 1;
        char rest[64];
        snprintf(rest, sizeof rest, ", a block of 1536 bytes, at byte %zu", at[i]);
        char line[160];
        snprintf(line, sizeof line, "hakmem: fatal: write after free: 0x%" PRIxPTR "%s",
                 (uintptr_t)p, rest);
        check_fault(take_and_free, &n, line);
        ((char *)hidden(p))[at[i]] = 0;
    }
}

/* ---- going on ---- */

enum { ROUNDS = 2000 };
static pthread_barrier_t barrier;
static void *contested;

static void *free_contested(void *unused) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        hak_free(hidden(contested));
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

/* Two threads free the same block at once: exactly one fault must be reported per round. Not for large
 * blocks without fences, where the race may end the process. */
static void raced(void *unused) {
    const size_t fenced = hk_guard->fences ? 40000 : 64;
    (void)unused;
    hk_store_relaxed(&hk_on_fault, (unsigned)HK_ON_FAULT_REPORT);
    int none = dup(STDERR_FILENO);
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK(pthread_create(&other, NULL, free_contested, NULL) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const uint64_t before = hk_counted_ever(faults);
        contested = hak_malloc(i % 3 == 0 ? fenced : i % 3 == 1 ? 0 : 64);
        pthread_barrier_wait(&barrier);
        hak_free(hidden(contested));
        pthread_barrier_wait(&barrier);
        if (hk_counted_ever(faults) != before + 1) {
            dprintf(none, "round %u: %lu faults\n", i, hk_counted_ever(faults) - before);
            _exit(1);
        }
    }
    pthread_join(other, NULL);
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(hak_stats_get(&stats) == 0 && stats.faults == ROUNDS);
}

/* With faults only reported, realloc of a freed or unknown pointer must fail with EINVAL, and an
 * overflow must be reported once: the block is not used again. */
static void said_once(void *p) {
    hk_store_relaxed(&hk_on_fault, (unsigned)HK_ON_FAULT_REPORT);
    errno = 0;
    CHECK(hak_realloc(p, 5000) == NULL && errno == EINVAL);
    CHECK_EQ(hk_counted_ever(faults), 1);
    static _Alignas(16) char nobodys[64];
    errno = 0;
    CHECK(hak_realloc(hidden(nobodys + 32), 5000) == NULL && errno == EINVAL);
    for (size_t n = 900; n <= 9000; n *= 10) { /* the overwritten tail must not be reported again */
        const uint64_t before = hk_counted_ever(faults);
        char *q = hak_malloc(n);
        memset(hidden(q + n), 'x', 100);
        hak_free(q);
        take_and_free(&n);
        CHECK_EQ(hk_counted_ever(faults), before + 1);
    }
    _exit(0);
}

static void reports_and_goes_on(void) {
    static child_t child;
    void *freed = hak_malloc(100);
    child_run(&child, raced, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    hak_free(freed);
    child_run(&child, said_once, hidden(freed));
    CHECK_EQ(child.status, 0);
}

/* A free must clear the tail too, from which the secret could be computed, even where it lies behind
 * the bytes that a free clears otherwise. A thread's first free takes another path than the next. */
static void *free_two(void *blocks) {
    hak_free(((void **)blocks)[0]);
    hak_free(hidden(hak_malloc(1500)));
    hak_free(((void **)blocks)[1]);
    return NULL;
}

static void no_tail_is_left(void) {
    static char nothing[HK_TAIL_WINDOW];
    char *blocks[] = {hak_malloc(1500), hak_malloc(1500)};
    memset(blocks[0], 0, 1500);
    memset(blocks[1], 0, 1500);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, free_two, blocks) == 0 && pthread_join(other, NULL) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(memcmp((char *)hidden(blocks[i]) + 1500, nothing, sizeof nothing) == 0);
}

/* ---- blocks from before the guard, and shadows ---- */

/* Between the guard's start and a thread's own trap, the thread allocates unguarded, also from newly
 * carved slabs. A second free of such a block must be reported all the same. */
static void begins_beside_others(void *unused) {
    (void)unused;
    void *blocks[8];
    hk_store_relaxed(&hk_config.guard, 1u);
    hk_guarded_start();
    for (unsigned i = 0; i < 8; i++)
        blocks[i] = hak_malloc(290);
    hk_front_apply();
    for (unsigned i = 0; i < 8; i++)
        hak_free(blocks[i]);
    CHECK_FAULT(free_it, blocks[0], "double free", "");
    _exit(0);
}

/* A slab is carved where one from before the guard was. Its shadow must be new: only the block just
 * handed out is in use. */
static void early_slabs_are_forgotten(void *early) {
    enum { BYTES = 9000 };
    unsigned out = 0;
    hak_free(early);
    hak_trim();
    char *p = hak_malloc(BYTES);
    const hk_slab_t *slab = hk_slab_of(p);
    const hk_class_t *c = &hk_classes[slab->cls];
    CHECK(hk_superslab_of(slab) == hk_map_owner(early));
    for (unsigned i = 0; i < c->blocks; i++)
        out += hk_load_relaxed(hk_shadow_of(slab->base + i * c->size, slab->cls)) != 0;
    CHECK_EQ(out, 1);
    hak_free(p);
}

enum { DENSE_SLABS = 2 * HK_SLICES };

/* Carves slabs for blocks of `bytes`, notes where their shadows are, and gives the slabs back. Fails if
 * a new shadow is not all 0. */
static void shadows_of(size_t bytes, uintptr_t shadows[DENSE_SLABS]) {
    const unsigned cls = hk_class_of(bytes), blocks = hk_classes[cls].blocks;
    hk_slab_t *slabs[DENSE_SLABS];
    for (unsigned i = 0; i < DENSE_SLABS; i++) {
        CHECK((slabs[i] = hk_pool_take(hk_classes[cls].slices, cls, 1)) != NULL);
        for (unsigned k = 0; k < blocks; k++)
            CHECK_EQ(hk_load_relaxed(hk_shadow_of(slabs[i]->base + k * bytes, cls)), 0);
        CHECK_EQ(hk_load_relaxed(hk_shadow_of(slabs[i]->base, cls) + blocks), 0);
        shadows[i] = (uintptr_t)hk_shadow_of(slabs[i]->base, cls);
    }
    for (unsigned i = 0; i < DENSE_SLABS; i++)
        hk_pool_give(slabs[i]);
}

static size_t reach_of(const uintptr_t shadows[DENSE_SLABS]) {
    uintptr_t first = shadows[0], last = first;
    for (unsigned i = 1; i < DENSE_SLABS; i++) {
        first = hk_min(first, shadows[i]);
        last = hk_max(last, shadows[i]);
    }
    return last - first;
}

/* Shadows of slabs with few blocks must lie close together, and must be reused when slabs of other
 * classes take turns: metadata must not grow. */
static void shadows_lie_close(void) {
    enum { LONG = 8192, SHORT = 64, TURNS = 64 };
    const size_t before = now().metadata;
    uintptr_t shadows[DENSE_SLABS];
    shadows_of(LONG, shadows);
    CHECK(reach_of(shadows) <= 2 * DENSE_SLABS * HK_CACHE_LINE);
    for (unsigned i = 0; i < TURNS; i++)
        shadows_of(i % 2 == 0 ? SHORT : LONG, shadows);
    CHECK(now().metadata - before <= HK_MIB);
}

/* What the thread's trap says: the quarantine, while operations are guarded and nothing else. */
static hk_quarantine_t *said(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    return hk_load_seq(&hk_load_acquire(&thread->rest)->trap.guarded);
}

static unsigned given;

static void count_given(void **own, void *p, const hk_told_t *told) {
    (void)own, (void)p, (void)told;
    given++;
}

static void ignore(void **own, void *p, const hk_told_t *told) { (void)own, (void)p, (void)told; }

static void watched_as_well(void) {
    static const hk_watcher_t watcher = {count_given, ignore, NULL, NULL};
    hk_quarantine_t *own = hk_load_acquire(&hk_load_relaxed(&hk_tc)->thread->quarantine);
    CHECK(own != NULL && said() == own);
    CHECK(hk_watch(HK_WATCH_RECORD, &watcher) && said() == NULL);
    hak_free(hak_malloc(100));
    CHECK_EQ(given, 1);
    CHECK(hk_watch(HK_WATCH_RECORD, NULL) && said() == own);
    hak_free(hak_malloc(100));
    CHECK_EQ(given, 1);
}

int main(void) {
    static child_t child;
    hak_free(hak_malloc(1));
    child_run(&child, begins_beside_others, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    for (unsigned zeroed = 64; zeroed <= HK_MID_MAX; zeroed *= 8) {
        child_run(&child, calloc_clears_the_rest, &zeroed);
        CHECK_TEXT(child.text, "");
        CHECK_EQ(child.status, 0);
    }
    void *early = hak_malloc(64), *early_free = hak_malloc(64), *early_large = hak_malloc(100000);
    void *early_slab = hak_malloc(9000);
    hak_free(early_free);
    guard();
    early_slabs_are_forgotten(early_slab);
    shadows_lie_close();
    hak_free(early);
    CHECK_FAULT(free_it, early, "double free", "");
    CHECK(hak_usable_size(early_large) >= 100000);
    CHECK(hak_realloc(early_large, 90000) == early_large); /* which never has fences */
    hak_free(early_large);
    zeros_are_seen_and_made();
    exact_sizes();
    realloc_keeps();
    found_at_once();
    found_in_the_tail();
    found_before_reuse();
    reports_and_goes_on();
    no_tail_is_left();
    watched_as_well();
}
