/* pool: a pool of threads has had its peak, has freed all of it, and sleeps; what stays resident? */
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "harness/blocks.h"
#include "harness/procfs.h"
#include "harness/team.h"

static uint64_t threads, each_bytes, churn, min_size, max_size, seed;
static double wait_s;

static const hb_option_t options[] = {
    {HB_UINT, "threads", &threads, .start = "16", .smoke = "3", .min = 1, .max = HB_MAX_LANES,
     .doc = "threads that work, and sleep"},
    {HB_UINT, "each", &each_bytes, .start = "16M", .smoke = "1M", .min = 1 << 16,
     .doc = "bytes in blocks that each has at the peak"},
    {HB_UINT, "churn", &churn, .start = "4", .smoke = "1",
     .doc = "blocks replaced at random at the peak, by others of any size, for each that there is"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1024", .min = 1, .doc = "largest size in bytes"},
    {HB_REAL, "wait", &wait_s, .start = "10", .smoke = "0", .doc = "seconds of quiet"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and replacements"},
};

static const hb_program_t program = {
    .name = "pool",
    .summary = "a pool of threads that was busy has freed all it had, in any order, and sleeps",
    .operation = "a malloc or a free of all threads",
    .notes = "Members of the result besides the usual ones, in KiB as smaps_rollup has them, less "
             "what the\n"
             "process had before the first block: peak_kb; after_kb, the resident set at the end "
             "of the\n"
             "quiet; after_lazy_kb, the part of it that the kernel may take at any time.\n"
             "seconds is without the quiet.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static struct {
    pthread_barrier_t all;
    hb_rollup_t before, peak, after;
    atomic_ullong operations;
} run;

/* What a thread has. */
typedef struct {
    hb_block_t *block;
    uint64_t count;
    uint32_t x;
} share_t;

static void allocate(hb_block_t *block, share_t *share) {
    block->size = hb_between(hb_next(&share->x), min_size, max_size);
    block->bytes = hb_block_new(block->size, (uint32_t)block->size);
    for (size_t at = 4096; at < block->size && !hb_smoke; at += 4096)
        block->bytes[at] = 1;
}

static void release(const hb_block_t *block) {
    hb_block_free(block->bytes, block->size, (uint32_t)block->size);
}

static hb_block_t *any_of(share_t *share) {
    return &share->block[hb_between(hb_next(&share->x), 0, share->count - 1)];
}

static void grow(share_t *share) {
    for (uint64_t bytes = 0; bytes < each_bytes; share->count++) {
        allocate(&share->block[share->count], share);
        bytes += share->block[share->count].size;
    }
    for (uint64_t n = churn * share->count; n != 0; n--) {
        hb_block_t *block = any_of(share);
        release(block);
        allocate(block, share);
    }
}

static void free_all(share_t *share) {
    for (; share->count != 0; share->count--) {
        hb_block_t *block = any_of(share), *last = &share->block[share->count - 1];
        release(block);
        *block = *last;
    }
}

static void sleep_a_while(void) {
    const struct timespec time = {(time_t)wait_s, (long)((wait_s - (double)(time_t)wait_s) * 1e9)};
    nanosleep(&time, NULL);
}

/* When all are there, and before one goes on. */
static void read_together(hb_rollup_t *memory, unsigned lane) {
    pthread_barrier_wait(&run.all);
    if (lane == 0)
        *memory = hb_rollup_now();
    pthread_barrier_wait(&run.all);
}

/* The last reading is made while all others sleep at a barrier. */
static void body(hb_team_t *team, unsigned lane, void *context) {
    (void)context;
    const size_t table = (each_bytes / min_size + 1) * sizeof(hb_block_t);
    share_t share = {.block = hb_reserve(table), .x = hb_seed(seed, lane)};
    read_together(&run.before, lane);
    hb_team_start(team);
    grow(&share);
    atomic_fetch_add(&run.operations, 2 * (1 + churn) * share.count);
    read_together(&run.peak, lane);
    free_all(&share);
    munmap(share.block, table);
    hb_team_finish(team);
    if (lane == 0)
        sleep_a_while();
    read_together(&run.after, lane);
}

static uint64_t grown(uint64_t now) {
    return now > run.before.rss_kb ? now - run.before.rss_kb : 0;
}

int main(int argc, char **argv) {
    char extra[256];
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size) {
        hb_die("--min is above --max");
    }
    pthread_barrier_init(&run.all, NULL, (unsigned)threads);
    const hb_usage_t usage = hb_team_run((unsigned)threads, body, NULL);
    snprintf(extra, sizeof extra,
             "\"peak_kb\":%" PRIu64 ",\"after_kb\":%" PRIu64 ",\"after_lazy_kb\":%" PRIu64,
             grown(run.peak.rss_kb), grown(run.after.rss_kb), run.after.lazyfree_kb);
    hb_report(&program, run.operations, &usage, extra);
    return 0;
}
