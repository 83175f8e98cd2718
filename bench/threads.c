/* threads: many threads, each with a little memory in use. How much does the process hold for it? */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "harness/blocks.h"
#include "harness/measure.h"
#include "harness/procfs.h"

static uint64_t threads, each, ops, min_size, max_size, seed;

static const hb_option_t options[] = {
    {HB_UINT, "threads", &threads, .start = "2000", .smoke = "50", .min = 1, .max = 30000,
     .doc = "threads, all alive at the end"},
    {HB_UINT, "each", &each, .start = "64K", .smoke = "16K", .min = 4096,
     .doc = "bytes of blocks that a thread has in use"},
    {HB_UINT, "ops", &ops, .start = "4000", .smoke = "200", .min = 1,
     .doc = "blocks that a thread replaces at random before it waits"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .doc = "largest size in bytes"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and replacements"},
};

static const hb_program_t program = {
    .name = "threads",
    .summary = "many threads that each have a little in use, and wait",
    .operation = "a block replaced by a thread",
    .notes = "Member of the result besides the usual ones: held, memory that the process holds "
             "when all\n"
             "threads wait, per byte in use, less what it had when all had started.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static pthread_barrier_t phase; /* all have started; may begin; have what they want; may end */
static hb_block_t *tables;      /* `slots` of each thread */
static uint64_t slots;

static void new_block(hb_block_t *block, uint32_t *random) {
    block->size = hb_between(hb_next(random), min_size, max_size);
    block->bytes = hb_block_new(block->size, (uint32_t)block->size);
    if (!hb_smoke)
        memset(block->bytes, 1, block->size);
}

/* The blocks of a thread are as many as make up its share on average. */
static void *live(void *argument) {
    const uint64_t number = (uint64_t)(uintptr_t)argument;
    hb_block_t *own = tables + number * slots;
    uint32_t random = hb_seed(seed, (unsigned)number);
    memset(own, 0, slots * sizeof *own);
    pthread_barrier_wait(&phase);
    pthread_barrier_wait(&phase);
    for (uint64_t i = 0; i < slots; i++)
        new_block(&own[i], &random);
    for (uint64_t i = 0; i < ops; i++) {
        hb_block_t *block = &own[hb_between(hb_next(&random), 0, slots - 1)];
        hb_block_free(block->bytes, block->size, (uint32_t)block->size);
        new_block(block, &random);
    }
    pthread_barrier_wait(&phase);
    pthread_barrier_wait(&phase);
    for (uint64_t i = 0; i < slots; i++)
        hb_block_free(own[i].bytes, own[i].size, (uint32_t)own[i].size);
    return NULL;
}

static uint64_t in_use(void) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < threads * slots; i++)
        bytes += tables[i].size;
    return bytes;
}

int main(int argc, char **argv) {
    static char extra[64];
    pthread_attr_t small;
    hb_options_parse(&program, argc, argv);
    slots = each / ((min_size + max_size) / 2);
    slots = slots != 0 ? slots : 1;
    tables = hb_reserve(threads * slots * sizeof *tables);
    pthread_t *thread = hb_reserve(threads * sizeof *thread);
    if (pthread_barrier_init(&phase, NULL, (unsigned)threads + 1) != 0 ||
        pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 128 << 10) != 0)
        hb_die("no barrier or no stacks of 128 KiB");
    for (uint64_t i = 0; i < threads; i++)
        if (pthread_create(&thread[i], &small, live, (void *)(uintptr_t)i) != 0)
            hb_die("thread %" PRIu64 " could not be started", i);
    pthread_barrier_wait(&phase);
    const uint64_t before_kb = hb_rollup_now().rss_kb;
    const hb_usage_t begin = hb_usage_now();
    pthread_barrier_wait(&phase);
    pthread_barrier_wait(&phase);
    const hb_usage_t end = hb_usage_now(), busy = hb_usage_between(&begin, &end);
    const uint64_t now_kb = hb_rollup_now().rss_kb;
    const uint64_t held_kb = now_kb > before_kb ? now_kb - before_kb : 0;
    snprintf(extra, sizeof extra, "\"held\":%.4f", (double)held_kb * 1024 / (double)in_use());
    pthread_barrier_wait(&phase);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    hb_report(&program, threads * ops, &busy, extra);
    return 0;
}
