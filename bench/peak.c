/* peak: memory grows to a peak, most of it is freed, the process goes quiet; what stays resident?
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "harness/blocks.h"
#include "harness/procfs.h"
#include "harness/team.h"

static uint64_t peak_bytes, min_size, max_size, seed;
static double keep, wait_s;
static bool by_another, trim;

static const hb_option_t options[] = {
    {HB_UINT, "peak", &peak_bytes, .start = "512M", .smoke = "8M", .min = 1 << 20,
     .doc = "bytes in blocks at the peak"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1024", .min = 1, .doc = "largest size in bytes"},
    {HB_REAL, "keep", &keep, .start = "0.05", .doc = "share of the blocks that stays, at random"},
    {HB_REAL, "wait", &wait_s, .start = "10", .smoke = "0",
     .doc = "seconds of quiet; the memory is read once a second"},
    {HB_FLAG, "by-another", &by_another,
     .doc = "another thread frees, and the one that allocated sleeps meanwhile"},
    {HB_FLAG, "trim", &trim, .doc = "call malloc_trim(0) after the frees"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and of what stays"},
};

static const hb_program_t program = {
    .name = "peak",
    .summary = "memory grows to a peak, most of it is freed, the process goes quiet",
    .operation = "a malloc; a free; and a malloc again",
    .notes =
        "Members of the result besides the usual ones, in KiB as smaps_rollup has them, less what "
        "the\n"
        "process had before the first block: peak_kb; after_kb, the resident set at the end of "
        "the\n"
        "quiet; after_lazy_kb, the part of it that the kernel may take at any time; refilled_kb, "
        "once\n"
        "as many blocks as were freed are there again; live_kb, the bytes asked for that stay.\n"
        "seconds is the time of allocating, freeing and allocating again, without the quiet; "
        "quiet_cpu_s\n"
        "the CPU time of the process during the quiet.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static struct {
    hb_block_t *block;
    uint64_t count, live;
    bool *stays;
    hb_rollup_t before, peak, after, refilled;
    hb_usage_t busy, quiet;
} run;

static hb_usage_t timed(void (*part)(void)) {
    const hb_usage_t begin = hb_usage_now();
    part();
    const hb_usage_t end = hb_usage_now();
    return hb_usage_between(&begin, &end);
}

/* Blocks larger than a page are written to on each, as a program that needs them would. */
static void allocate(void) {
    for (uint64_t i = 0; i < run.count; i++) {
        hb_block_t *block = &run.block[i];
        if (block->bytes != NULL)
            continue;
        block->bytes = hb_block_new(block->size, (uint32_t)i);
        for (size_t at = 4096; at < block->size && !hb_smoke; at += 4096)
            block->bytes[at] = (unsigned char)i;
    }
}

static void free_most(void) {
    for (uint64_t i = 0; i < run.count; i++)
        if (!run.stays[i]) {
            hb_block_free(run.block[i].bytes, run.block[i].size, (uint32_t)i);
            run.block[i].bytes = NULL;
        }
    if (trim)
        malloc_trim(0);
}

static void sleep_a_while(void) {
    for (double left = wait_s; left > 0; left -= 1) {
        const double now = left < 1 ? left : 1;
        const struct timespec time = {(time_t)now, (long)((now - (double)(time_t)now) * 1e9)};
        nanosleep(&time, NULL);
    }
}

/* The blocks and what is known about them, before the memory is first read. */
static void prepare(void) {
    const uint64_t most = peak_bytes / min_size + 1;
    run.block = hb_reserve(most * sizeof *run.block);
    run.stays = hb_reserve(most * sizeof *run.stays);
    uint32_t x = hb_seed(seed, 0);
    for (uint64_t bytes = 0; bytes < peak_bytes; run.count++) {
        hb_block_t *block = &run.block[run.count];
        block->size = hb_between(hb_next(&x), min_size, max_size);
        bytes += block->size;
        run.stays[run.count] = hb_next(&x) < (uint32_t)(keep * UINT32_MAX);
        run.live += run.stays[run.count] ? block->size : 0;
    }
    run.before = hb_rollup_now();
}

/* Lane 0 allocates; the last lane frees. */
static void body(hb_team_t *team, unsigned lane, void *context) {
    (void)context;
    const bool frees = lane + 1 == team->lanes;
    if (lane == 0) {
        run.busy = timed(allocate);
        run.peak = hb_rollup_now();
    }
    hb_team_start(team);
    if (frees) {
        const hb_usage_t part = timed(free_most);
        hb_usage_add(&run.busy, &part);
        run.quiet = timed(sleep_a_while);
        run.after = hb_rollup_now();
    }
    hb_team_finish(team);
    if (frees) {
        const hb_usage_t part = timed(allocate);
        hb_usage_add(&run.busy, &part);
        run.refilled = hb_rollup_now();
        for (uint64_t i = 0; i < run.count; i++)
            hb_block_free(run.block[i].bytes, run.block[i].size, (uint32_t)i);
    }
}

static uint64_t grown(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

int main(int argc, char **argv) {
    char extra[256];
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size || keep > 1) {
        hb_die(keep > 1 ? "--keep is a share, at most 1" : "--min is above --max");
    }
    prepare();
    hb_team_run(by_another ? 2 : 1, body, NULL);
    snprintf(extra, sizeof extra,
             "\"peak_kb\":%" PRIu64 ",\"after_kb\":%" PRIu64 ",\"after_lazy_kb\":%" PRIu64
             ",\"refilled_kb\":%" PRIu64 ",\"live_kb\":%" PRIu64 ",\"quiet_cpu_s\":%.6f",
             grown(run.peak.rss_kb, run.before.rss_kb), grown(run.after.rss_kb, run.before.rss_kb),
             run.after.lazyfree_kb, grown(run.refilled.rss_kb, run.before.rss_kb), run.live >> 10,
             run.quiet.user_s + run.quiet.sys_s);
    hb_report(&program, 2 * run.count, &run.busy, extra);
    return 0;
}
