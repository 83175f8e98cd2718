/* batch: a set of blocks is allocated, then all of it is freed, again and again. */
#include "harness/blocks.h"
#include "harness/measure.h"

enum { LIFO, FIFO };

static uint64_t blocks, rounds, size;
static unsigned order;

static const hb_option_t options[] = {
    {HB_UINT, "blocks", &blocks, .start = "20000", .smoke = "2000", .min = 1, .max = 1 << 28,
     .doc = "blocks of one round"},
    {HB_UINT, "rounds", &rounds, .start = "2000", .smoke = "20", .min = 1, .doc = "rounds"},
    {HB_UINT, "size", &size, .start = "64", .words = "mixed", .min = 1, .max = 1 << 30,
     .doc = "bytes of a block; mixed: 16 to 1040 at random"},
    {HB_WORD, "order", &order, .start = "fifo", .words = "lifo|fifo",
     .doc = "freed in which order: last or first allocated first"},
};

static const hb_program_t program = {
    .name = "batch",
    .summary = "many equal blocks in, then all of them out: parsers, builders, frames",
    .operation = "one malloc and its free",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* Block i has the same size in every round. */
static void choose_sizes(hb_block_t *block) {
    uint32_t x = hb_seed(1, 0);
    for (uint64_t i = 0; i < blocks; i++) {
        block[i].size = size != 0 ? (size_t)size : hb_between(hb_next(&x), 16, 1040);
    }
}

static void run_round(hb_block_t *block) {
    for (uint64_t i = 0; i < blocks; i++) {
        block[i].bytes = hb_block_new(block[i].size, (uint32_t)i);
    }
    if (order == FIFO) {
        for (uint64_t i = 0; i < blocks; i++) {
            hb_block_free(block[i].bytes, block[i].size, (uint32_t)i);
        }
    } else {
        for (uint64_t i = blocks; i-- > 0;) {
            hb_block_free(block[i].bytes, block[i].size, (uint32_t)i);
        }
    }
}

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    hb_block_t *block = hb_map(blocks * sizeof *block);
    choose_sizes(block);
    run_round(block);
    const hb_usage_t begin = hb_usage_now();
    for (uint64_t i = 0; i < rounds; i++) {
        run_round(block);
    }
    const hb_usage_t end = hb_usage_now();
    const hb_usage_t usage = hb_usage_between(&begin, &end);
    hb_report(&program, blocks * rounds, &usage, NULL);
    return 0;
}
