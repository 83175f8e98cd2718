/* cache: a cache of bounded bytes whose entries' sizes shift while it lives. How much memory does it
 * take to hold so much? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/blocks.h"
#include "harness/measure.h"
#include "harness/procfs.h"

static uint64_t budget, phases, ops, seed;

static const hb_option_t options[] = {
    {HB_UINT, "budget", &budget, .start = "64M", .smoke = "1M", .min = 1 << 20,
     .doc = "bytes of entries that it holds, the oldest and newest alike evicted at random"},
    {HB_UINT, "phases", &phases, .start = "12", .smoke = "4", .min = 1, .max = 24,
     .doc = "in each the sizes are twice those of the one before, and after four as at first"},
    {HB_UINT, "ops", &ops, .start = "2000000", .smoke = "4000", .min = 100,
     .doc = "entries put in per phase"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and evictions"},
};

static const hb_program_t program = {
    .name = "cache",
    .summary = "a cache of bounded bytes, whose entries' sizes shift while it lives",
    .operation = "an entry put in, and as many evicted at random as make room for it",
    .notes = "Members of the result besides the usual ones: curve, memory held per byte of entries "
             "ten times a\n"
             "phase, less what the process had before and the table of entries takes; held, its "
             "mean.\n"
             "seconds is without the reading of the memory.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

enum { LEAST = 16, MOST = 8192, READINGS = 10 };

static struct {
    hb_block_t *entry;
    uint64_t count, most, bytes, before_kb;
    uint32_t random;
    hb_usage_t busy;
} run;

/* From a seventh to seven times the median, which is most likely: 2 to the power of the sum of four
 * uniform numbers, the power's fraction as a straight line. */
static size_t size_around(size_t median) {
    const uint32_t x = hb_next(&run.random);
    const int sum = (int)(x & 255) + (int)(x >> 8 & 255) + (int)(x >> 16 & 255) + (int)(x >> 24);
    const unsigned power = (unsigned)((sum - 510) * 7 / 5 + 4 * 256); /* in 256ths, 4 too large */
    const size_t size = (median << (power >> 8)) * (256 + (power & 255)) >> 12;
    return size < LEAST ? LEAST : size > MOST ? MOST : size;
}

static void evict(uint64_t i) {
    hb_block_free(run.entry[i].bytes, run.entry[i].size, (uint32_t)run.entry[i].size);
    run.bytes -= run.entry[i].size;
    run.entry[i] = run.entry[--run.count];
}

static void put(size_t size) {
    while (run.bytes + size > budget)
        evict(hb_between(hb_next(&run.random), 0, run.count - 1));
    hb_block_t *entry = &run.entry[run.count++];
    entry->size = size;
    entry->bytes = hb_block_new(size, (uint32_t)size);
    if (!hb_smoke)
        memset(entry->bytes, 1, size);
    run.bytes += size;
    run.most = run.count > run.most ? run.count : run.most;
}

static double held(void) {
    const uint64_t table_kb = run.most * sizeof *run.entry >> 10;
    const uint64_t own_kb = run.before_kb + table_kb, now_kb = hb_rollup_now().rss_kb;
    return (now_kb > own_kb ? (double)(now_kb - own_kb) : 0) * 1024 / (double)run.bytes;
}

int main(int argc, char **argv) {
    static char extra[4096];
    int length = snprintf(extra, sizeof extra, "\"curve\":[");
    double sum = 0;
    hb_options_parse(&program, argc, argv);
    run.entry = hb_reserve((budget / LEAST + 1) * sizeof *run.entry);
    run.random = hb_seed(seed, 0);
    run.before_kb = hb_rollup_now().rss_kb;
    for (uint64_t i = 0; i < phases * READINGS; i++) {
        const size_t median = (size_t)90 << i / READINGS % 4;
        const hb_usage_t begin = hb_usage_now();
        for (uint64_t k = 0; k < ops / READINGS; k++)
            put(size_around(median));
        const hb_usage_t end = hb_usage_now(), part = hb_usage_between(&begin, &end);
        hb_usage_add(&run.busy, &part);
        const double now = held();
        sum += now;
        length += snprintf(extra + length, sizeof extra - (size_t)length, "%s%.3f",
                           i == 0 ? "" : ",", now);
    }
    snprintf(extra + length, sizeof extra - (size_t)length, "],\"held\":%.4f",
             sum / (double)(phases * READINGS));
    while (run.count != 0)
        evict(run.count - 1);
    hb_report(&program, phases * (ops / READINGS) * READINGS, &run.busy, extra);
    return 0;
}
