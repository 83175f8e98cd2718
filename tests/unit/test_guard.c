/* The guard: what it knows of each block, what it finds and when, and that it goes on where it is told
 * to. The process starts unguarded, so that blocks from before are there too. */
#include <pthread.h>

#include "backend/meta.h"
#include "base/calls.h"
#include "base/report.h"
#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/guarded.h"
#include "guard/fence.h"
#include "guard/quarantine.h"
#include "guard/tail.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

static void *hidden(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void guard(void) {
    hk_store_relaxed(&hk_config.guard, 1u);
    hk_guarded_start();
    hk_front_apply();
    CHECK(hk_guarded());
}

/* ---- what a child does, and what it says ---- */

static child_t child;

/* fn(argument) ends by SIGABRT, having said so much, among else which pointer. */
static void check_fault(void (*fn)(void *), void *argument, const char *said) {
    child_run(&child, fn, argument);
    if (strstr(child.text, said) != child.text) {
        dprintf(STDERR_FILENO, "got %s, expected %s...\n", child.text, said);
        _exit(1);
    }
    CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
}

static void free_it(void *p) { hak_free(p); }
static void ask_size(void *p) { hak_usable_size(p); }
static void resize_it(void *p) { hidden(hak_realloc(p, 5000)); }

#define CHECK_FAULT(fn, p, kind, rest)                                                             \
    do {                                                                                           \
        char line[160];                                                                            \
        snprintf(line, sizeof line, "hakmem: fatal: %s: 0x%" PRIxPTR "%s, in thread ", kind,       \
                 (uintptr_t)(p), rest);                                                            \
        check_fault(fn, p, line);                                                                  \
    } while (0)

/* ---- sizes ---- */

/* Where OS pages are too large for fences, a large block is like any process's. */
static bool is_exact(size_t n) { return hk_guard->fences || (n != 0 && n < HK_MID_MAX); }

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

/* ---- what is found ---- */

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

/* Each byte of the tail, and bytes of every value. */
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

static void found_before_reuse(void) {
    static const size_t at[] = {0, 1, 63, 64, 500, 1023};
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

/* Of two threads that free the same block at once, one is told, whichever block it is; but for large ones that are not
 * fenced, where it may be the end. */
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
        const unsigned before = hk_load_relaxed(&hk_faults);
        contested = hak_malloc(i % 3 == 0 ? fenced : i % 3 == 1 ? 0 : 64);
        pthread_barrier_wait(&barrier);
        hak_free(hidden(contested));
        pthread_barrier_wait(&barrier);
        if (hk_load_relaxed(&hk_faults) != before + 1) {
            dprintf(none, "round %u: %u faults\n", i, hk_load_relaxed(&hk_faults) - before);
            _exit(1);
        }
    }
    pthread_join(other, NULL);
    hak_stats_t stats = {.size = sizeof stats};
    CHECK(hak_stats_get(&stats) == 0 && stats.faults == ROUNDS);
}

static void reports_and_goes_on(void) {
    child_run(&child, raced, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
}

/* ---- late, and by chance ---- */

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

static void order_is_chance(void) {
    enum { BLOCKS = 512 };
    char *blocks[BLOCKS];
    unsigned up = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(700);
    for (unsigned i = 1; i < BLOCKS; i++)
        up += blocks[i] > blocks[i - 1];
    if (!HK_HOSTILE) /* whose magazines have no two blocks to shuffle */
        CHECK(up > BLOCKS / 4 && up < BLOCKS / 4 * 3);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Every block that waits can be the next to go; what has gone is taken, the latest first, and once. */
static void every_place_is_left(void) {
    static hk_quarantine_t quarantine;
    static char blocks[HK_QUARANTINE_MOST + 4000];
    const unsigned room = hk_quarantine_room(2);
    unsigned left[sizeof blocks] = {0}, gone = 0;
    CHECK(room > 16 && room <= HK_QUARANTINE_MOST);
    hk_quarantine_begin(&quarantine);
    for (unsigned i = 0; i < sizeof blocks; i++) {
        const hk_waiting_t one = {&blocks[i], NULL};
        if (!hk_quarantine_put(&quarantine, 2, one))
            CHECK(hk_quarantine_put_slow(&quarantine, 2, one) == NULL);
        char *out = hk_quarantine_take(&quarantine, 2).p;
        CHECK(out == NULL || (out >= blocks && out < &blocks[i]));
        if (out != NULL)
            left[out - blocks]++;
    }
    for (unsigned i = 0; i < sizeof blocks; i++) {
        CHECK(left[i] <= 1);
        gone += left[i];
        CHECK(left[i] == 1 || i > 2000);
    }
    CHECK_EQ(gone, sizeof blocks - room);
    while (hk_quarantine_drain(&quarantine, 2) != NULL)
        gone++;
    CHECK_EQ(gone, sizeof blocks);
}

/* ---- fences ---- */

/* ---- where things lie ---- */

/* Superslabs of a guarded process: apart, and each time elsewhere. */
static void superslabs_lie_apart(void) {
#ifdef __SANITIZE_THREAD__
    return; /* it allows no mappings at most addresses, and says so by another place */
#endif
    enum { UNITS = 12, BYTES = 30000, BLOCKS = UNITS * (int)(HK_UNIT / BYTES) };
    static void *blocks[BLOCKS];
    uintptr_t seen[2 * UNITS], least = UINTPTR_MAX, most = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(BYTES);
        const uintptr_t unit = (uintptr_t)blocks[i] >> HK_UNIT_SHIFT;
        bool known = (uintptr_t)blocks[i] >> 46 != 0; /* from before, where the system put it */
        for (unsigned k = 0; k < count; k++) {
            known |= seen[k] == unit;
            CHECK(seen[k] == unit || (seen[k] != unit + 1 && unit != seen[k] + 1));
        }
        if (!known && count < 2 * UNITS)
            seen[count++] = unit;
    }
    for (unsigned k = 0; k < count; k++) {
        least = hk_min(least, seen[k]);
        most = hk_max(most, seen[k]);
    }
    CHECK(count >= UNITS / 2);
    CHECK(most - least > 100 * count); /* of 32 768 places: one run in 10^8 fails */
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

static void write_there(void *p) { *(volatile char *)p = 1; }

static void read_there(void *p) { (void)*(volatile const char *)p; }

/* One in eight slices of a superslab for slabs cannot be touched, each time another; the others can. */
static void superslabs_have_holes(void) {
#ifdef __SANITIZE_THREAD__
    return; /* as above */
#endif
    enum { BYTES = 30000, BLOCKS = 400, UNITS = 32 };
    static char *blocks[BLOCKS], *units[UNITS];
    static bool used[UNITS][HK_UNIT / HK_SLICE];
    unsigned count = 0, holes = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(BYTES);
        blocks[i][BYTES - 1] = 1;
        if ((uintptr_t)blocks[i] >> 46 != 0)
            continue; /* in a superslab from before */
        char *unit = (char *)((uintptr_t)blocks[i] & ~(HK_UNIT - 1));
        unsigned at = 0;
        while (at < count && units[at] != unit)
            at++;
        CHECK(at < UNITS);
        units[at] = unit;
        count = (unsigned)hk_max(count, at + 1);
        used[at][(size_t)(blocks[i] - unit) / HK_SLICE] = true;
    }
    for (unsigned at = 0; at < count; at++)
        for (unsigned slice = 0; slice < HK_UNIT / HK_SLICE; slice++) {
            child_run(&child, read_there, units[at] + slice * HK_SLICE);
            holes += child.status != 0;
            CHECK(child.status == 0 || !used[at][slice]);
        }
    CHECK(count >= 2);
    if (hk_guard->fences)
        CHECK_EQ(holes, 4 * count);
    else /* slabs may be cut from large blocks' superslabs, which have none */
        CHECK(holes >= 4);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* The pages before and behind a chunk of the allocator's own memory. */
static void own_memory_is_fenced(void) {
    static const size_t chunk = 512 * HK_KIB; /* more than what is left of the last one */
    char *p = hk_meta_alloc(chunk);
    CHECK(p != NULL);
    write_there(p + chunk - 1);
    char *first = (char *)((uintptr_t)p & ~(hk_os_page_size() - 1));
    child_run(&child, write_there, first - 1);
    CHECK(child.status != 0); /* SIGSEGV, or what a sanitizer makes of it */
    char *behind = (char *)hk_align_up((uintptr_t)p + chunk, hk_os_page_size());
    child_run(&child, write_there, behind);
    CHECK(child.status != 0); /* SIGSEGV, or what a sanitizer makes of it */
}

static void fences_go(void) {
    void *nothings[70000];
    hk_fence_stats_t before = hk_fence_stats();
    for (unsigned i = 0; i < 2000; i++) {
        char *p = hak_malloc(40000 + i);
        p[0] = p[40000 + i - 1] = 1;
        hak_free(p);
    }
    CHECK_EQ(hk_fence_stats().blocks, before.blocks);
    CHECK_EQ(hk_fence_stats().bytes, before.bytes);
    for (unsigned i = 0; i < 70000; i++) {
        nothings[i] = hak_malloc(0);
        CHECK(nothings[i] != NULL && hak_usable_size(nothings[i]) == 0);
    }
    for (unsigned i = 0; i < 70000; i++)
        hak_free(nothings[i]);
}

static uint64_t mappings(void) {
    return hk_load_relaxed(&hk_calls[HK_CALL_mmap]) + hk_load_relaxed(&hk_calls[HK_CALL_munmap]);
}

/* So many blocks, one after the other: each reads as zero. Returns how many calls of the system that took. */
static uint64_t calls_for(unsigned blocks, size_t n) {
    const uint64_t before = mappings();
    for (unsigned i = 0; i < blocks; i++) {
        char *p = hak_malloc(n - i % 1000);
        for (size_t at = 0; at < n - i % 1000; at++)
            CHECK_EQ(p[at], 0);
        memset(p, 'x', n - i % 1000);
        hak_free(p);
    }
    return mappings() - before;
}

/* Where one has waited, the next one of as many pages is put; and trimming forgets them. */
static void fences_are_used_again(void) {
    enum { BLOCKS = 1000 };
    const uint64_t small = calls_for(BLOCKS, 102400), large = calls_for(BLOCKS, 1024000);
    CHECK(small < BLOCKS && large > 2 * BLOCKS);
    hak_trim();
    CHECK(calls_for(1, 102400) > 0);
}

/* A block that grows by a page at a time gets a mapping now and then, and keeps what is in it and its fence. */
static void grows_where_it_is(void) {
    enum { STEPS = 200, STEP = 4096, FIRST = 70001 };
    unsigned moves = 0;
    size_t n = FIRST;
    char *p = hak_malloc(n);
    memset(p, 1, n);
    for (unsigned i = 0; i < STEPS; i++, n += STEP) {
        char *q = hak_realloc(p, n + STEP);
        moves += q != p;
        p = q;
        CHECK_EQ(hak_usable_size(p), n + STEP);
        CHECK_EQ(p[0] + p[n - 1] + p[n], 2);
        memset(p + n, 1, STEP);
    }
    CHECK(moves >= 1 && moves <= 6);
    child_run(&child, write_there, p + n + hk_os_page_size());
    CHECK(child.status != 0);
    CHECK(*(char *)hidden(p + n) != 0); /* its tail */
    *(char *)hidden(p + n) ^= 1;
    CHECK_FAULT(free_it, p, "overflow", ", a block of 889201 bytes, at byte 889201");
    *(char *)hidden(p + n) ^= 1;
    hak_free(p);
}

/* What a handler frees that it has just allocated, while it interrupts its thread at a magazine, is on top of it
 * again. */
static void a_handler_puts_it_back(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const uint64_t dice = hk_quarantine_close(thread->quarantine);
    for (unsigned i = 0; i < 100; i++) {
        void *p = hak_malloc(100);
        hak_free(p);
        void *q = hak_malloc(100);
        CHECK(q == p);
        hak_free(q);
        CHECK_EQ(hk_load_relaxed(&thread->quarantine->dice), 0);
    }
    hk_quarantine_open(thread->quarantine, dice);
}

#if HK_DEBUG
/* Where the system refuses, a large block does without its fences, or there is none. */
static void without_memory(void) {
    for (long calls = 0; calls < 12; calls++) {
        hk_os_fail_after(calls);
        char *p = hak_malloc(300000);
        hk_os_fail_after(-1);
        if (p != NULL)
            memset(p, 1, 300000);
        hak_free(p);
    }
}

/* The system refuses to take a sampled block's page away: who has the page next finds nothing in it. */
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
#else
static void without_memory(void) {}
static void sampled_without_memory(void) {}
#endif

/* ---- samples ---- */

static void gaps_are_right(void) {
    double sum = 0;
    hk_store_relaxed(&hk_sample_every, 1000u);
    for (unsigned i = 0; i < 100000; i++)
        sum += hk_sample_gap();
    hk_store_relaxed(&hk_sample_every, 0u);
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

/* One counts as a page that is allocated. */
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

/* On and off while the process runs, with threads, in each case about as many as asked for. */
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

int main(void) {
    void *early = hak_malloc(64), *early_free = hak_malloc(64), *early_large = hak_malloc(100000);
    hak_free(early_free);
    gaps_are_right();
    sampled();
    guard();
    hak_free(early);
    CHECK_FAULT(free_it, early, "double free", "");
    CHECK(hak_usable_size(early_large) >= 100000);
    hak_free(early_large);
    exact_sizes();
    realloc_keeps();
    found_at_once();
    found_in_the_tail();
    found_before_reuse();
    reports_and_goes_on();
    reuse_is_late();
    order_is_chance();
    every_place_is_left();
    if (!is_emulated("mappings at addresses of chance")) {
        superslabs_lie_apart();
        superslabs_have_holes();
    }
    own_memory_is_fenced();
    fences_go();
    if (hk_guard->fences) {
        fences_are_used_again();
        grows_where_it_is();
    }
    a_handler_puts_it_back();
    without_memory();
    sampled_without_memory();
    sampled();
    use(NULL);
}
