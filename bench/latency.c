/* latency: every single malloc and free is timed. How long does one call take at worst? */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "harness/blocks.h"
#include "harness/team.h"
#include "latency_histogram.h"
#include "latency_ticks.h"

static uint64_t ops, threads, slots, pass, min_size, max_size, seed;

static const hb_option_t options[] = {
    {HB_UINT, "threads", &threads, .start = "1", .min = 1, .max = HB_MAX_LANES,
     .doc = "threads at a time"},
    {HB_UINT, "ops", &ops, .start = "4000000", .smoke = "40000", .min = 1,
     .doc = "blocks replaced, by all threads in equal shares"},
    {HB_UINT, "slots", &slots, .start = "8192", .smoke = "500", .min = 1, .max = 1 << 28,
     .doc = "live blocks of a thread"},
    {HB_UINT, "pass", &pass, .start = "16", .min = 1,
     .doc = "of so many blocks one is freed by the next thread, where there is one"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .doc = "largest size in bytes"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and slots"},
};

static const hb_program_t program = {
    .name = "latency",
    .summary = "blocks are replaced at random, some freed by another thread; each call is timed",
    .operation = "one free and one malloc",
    .notes = "Members of the result besides the usual ones: malloc_p50_ns, malloc_p99_ns, "
             "malloc_p999_ns,\n"
             "malloc_p9999_ns, malloc_max_ns, the same of free, and calls of each. A percentile is "
             "at most 0.8 %\n"
             "off. What the clock itself takes (timer_ns, the median of two readings in a row) is "
             "taken off.\n"
             "The first tenth of the operations is not counted: the memory is new to the process.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

enum { RING = 256, PAIRS = 10001 };

/* A thread's place. What the one before it hands over lies in its ring. */
typedef struct {
    _Alignas(128) hb_histogram_t malloc_ticks, free_ticks;
    hb_block_t *block;
    uint32_t x;
    _Alignas(128) atomic_uint put;   /* written by the lane before */
    hb_block_t ring[RING];           /* [taken, put), modulo its size */
    _Alignas(128) atomic_uint taken; /* written by the owner */
} lane_t;

static lane_t *lanes;
static uint64_t overhead; /* const once measured: ticks */

static void note(hb_histogram_t *histogram, uint64_t ticks) {
    hb_histogram_add(histogram, ticks > overhead ? ticks - overhead : 0);
}

static void timed_free(lane_t *lane, hb_block_t block) {
    if (hb_smoke) {
        hb_verify(block.bytes, block.size, (uint32_t)block.size);
    }
    const uint64_t begin = hb_ticks_begin();
    free(block.bytes);
    note(&lane->free_ticks, hb_ticks_end() - begin);
}

static hb_block_t timed_malloc(lane_t *lane) {
    const size_t size = hb_between(hb_next(&lane->x), min_size, max_size);
    const uint64_t begin = hb_ticks_begin();
    unsigned char *bytes = malloc(size);
    note(&lane->malloc_ticks, hb_ticks_end() - begin);
    hb_block_open(bytes, size, (uint32_t)size);
    return (hb_block_t){bytes, size};
}

/* False: its ring is full. */
static bool hand_over(lane_t *to, hb_block_t block) {
    const unsigned put = atomic_load_explicit(&to->put, memory_order_relaxed);
    if (put - atomic_load_explicit(&to->taken, memory_order_acquire) == RING) {
        return false;
    }
    to->ring[put % RING] = block;
    atomic_store_explicit(&to->put, put + 1, memory_order_release);
    return true;
}

/* Frees one block that the lane before has handed over, if there is one. */
static bool free_handed(lane_t *lane) {
    const unsigned taken = atomic_load_explicit(&lane->taken, memory_order_relaxed);
    if (taken == atomic_load_explicit(&lane->put, memory_order_acquire)) {
        return false;
    }
    timed_free(lane, lane->ring[taken % RING]);
    atomic_store_explicit(&lane->taken, taken + 1, memory_order_release);
    return true;
}

static void replace(lane_t *lane, lane_t *next, uint64_t n) {
    hb_block_t *block = &lane->block[hb_between(hb_next(&lane->x), 0, slots - 1)];
    if (next == lane || n % pass != 0 || !hand_over(next, *block)) {
        timed_free(lane, *block);
    }
    free_handed(lane);
    *block = timed_malloc(lane);
}

static void forget(lane_t *lane) {
    memset(&lane->malloc_ticks, 0, sizeof lane->malloc_ticks);
    memset(&lane->free_ticks, 0, sizeof lane->free_ticks);
}

static void body(hb_team_t *team, unsigned number, void *unused) {
    (void)unused;
    lane_t *lane = &lanes[number], *next = &lanes[(number + 1) % threads];
    const uint64_t share = ops / threads;
    lane->x = hb_seed(seed, number);
    lane->block = hb_map(slots * sizeof *lane->block);
    for (uint64_t i = 0; i < slots; i++) {
        lane->block[i] = timed_malloc(lane);
    }
    hb_team_start(team);
    for (uint64_t n = 0; n < share; n++) {
        if (n == share / 10) {
            forget(lane);
        }
        replace(lane, next, n);
    }
    hb_team_finish(team);
    while (free_handed(lane)) {
        continue;
    }
    for (uint64_t i = 0; i < slots; i++) {
        hb_block_free(lane->block[i].bytes, lane->block[i].size, (uint32_t)lane->block[i].size);
    }
}

/* The median of the ticks between two readings with nothing between them. */
static uint64_t measure_overhead(void) {
    hb_histogram_t *pairs = &lanes[0].malloc_ticks;
    for (unsigned i = 0; i < PAIRS; i++) {
        const uint64_t begin = hb_ticks_begin();
        hb_histogram_add(pairs, hb_ticks_end() - begin);
    }
    const uint64_t median = (uint64_t)hb_histogram_percentile(pairs, 0.5);
    forget(&lanes[0]);
    return median;
}

static int describe(char *text, size_t room, const char *name, const hb_histogram_t *h, double ns) {
    return snprintf(
        text, room,
        ",\"%s_p50_ns\":%.2f,\"%s_p99_ns\":%.2f,\"%s_p999_ns\":%.2f,"
        "\"%s_p9999_ns\":%.2f,\"%s_max_ns\":%.1f,\"%s_calls\":%" PRIu64,
        name, hb_histogram_percentile(h, 0.5) * ns, name, hb_histogram_percentile(h, 0.99) * ns,
        name, hb_histogram_percentile(h, 0.999) * ns, name, hb_histogram_percentile(h, 0.9999) * ns,
        name, (double)h->max * ns, name, h->sum);
}

int main(int argc, char **argv) {
    static char extra[1024];
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size) {
        hb_die("--min is above --max");
    }
    if (ops < threads) {
        hb_die("--ops=%ju is less than one operation per thread", (uintmax_t)ops);
    }
    lanes = hb_map(threads * sizeof *lanes);
    overhead = measure_overhead();
    const double before_s = hb_wall_now();
    const uint64_t before = hb_ticks_begin();
    const hb_usage_t usage = hb_team_run((unsigned)threads, body, NULL);
    const double ns = (hb_wall_now() - before_s) * 1e9 / (double)(hb_ticks_end() - before);
    for (unsigned i = 1; i < threads; i++) {
        hb_histogram_merge(&lanes[0].malloc_ticks, &lanes[i].malloc_ticks);
        hb_histogram_merge(&lanes[0].free_ticks, &lanes[i].free_ticks);
    }
    int length = snprintf(extra, sizeof extra, "\"timer_ns\":%.2f", (double)overhead * ns);
    length += describe(extra + length, sizeof extra - (size_t)length, "malloc",
                       &lanes[0].malloc_ticks, ns);
    describe(extra + length, sizeof extra - (size_t)length, "free", &lanes[0].free_ticks, ns);
    hb_report(&program, ops / threads * threads, &usage, extra);
    return 0;
}
