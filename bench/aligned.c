/* aligned: blocks with alignments from 16 bytes to 64 KiB, replaced at random. */
#include "harness/blocks.h"
#include "harness/measure.h"

static uint64_t ops, slots, min_size, max_size, max_align, seed;

static const hb_option_t options[] = {
    {HB_UINT, "ops", &ops, .start = "20000000", .smoke = "30000", .min = 1,
     .doc = "blocks replaced"},
    {HB_UINT, "slots", &slots, .start = "1000", .smoke = "200", .min = 1, .max = 1 << 28,
     .doc = "blocks alive"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "4096", .min = 1, .doc = "largest size in bytes"},
    {HB_UINT, "max-align", &max_align, .start = "64K", .min = 16, .max = 1 << 30,
     .doc = "largest alignment, a power of two; 16 is the smallest, and each is asked for half\n"
            "      as often as the one before"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes, alignments and slots"},
};

static const hb_program_t program = {
    .name = "aligned",
    .summary = "aligned blocks: vector code, direct input and output, cache-line padding",
    .operation = "one free and one posix_memalign or (every other time) aligned_alloc",
    .notes = "aligned_alloc gets its size rounded up to a multiple of the alignment, as C11 asks.\n"
             "The alignment of each block is verified in every run.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static hb_block_t new_block(uint32_t *x, bool posix, uint32_t tag) {
    const uint32_t r = hb_next(x);
    const uint32_t bound = (uint32_t)(max_align / 16);
    const size_t align = (size_t)16 << __builtin_ctz(r | bound);
    size_t size = hb_between(hb_next(x), min_size, max_size);
    void *bytes = NULL;
    if (posix) {
        if (posix_memalign(&bytes, align, size) != 0) {
            hb_out_of_memory(size);
        }
    } else {
        size = (size + align - 1) & ~(align - 1);
        bytes = aligned_alloc(align, size);
    }
    if (((uintptr_t)bytes & (align - 1)) != 0) {
        hb_die("block %p of %zu bytes is not aligned to %zu", bytes, size, align);
    }
    hb_block_open(bytes, size, tag);
    return (hb_block_t){bytes, size};
}

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size || (max_align & (max_align - 1)) != 0) {
        hb_die(min_size > max_size ? "--min is above --max" : "--max-align is no power of two");
    }
    hb_block_t *block = hb_map(slots * sizeof *block);
    uint32_t x = hb_seed(seed, 0);
    for (uint32_t i = 0; i < slots; i++) {
        block[i] = new_block(&x, i % 2 == 0, i);
    }
    const hb_usage_t begin = hb_usage_now();
    for (uint64_t n = 0; n < ops; n++) {
        const uint32_t i = (uint32_t)hb_between(hb_next(&x), 0, slots - 1);
        hb_block_free(block[i].bytes, block[i].size, i);
        block[i] = new_block(&x, n % 2 == 0, i);
    }
    const hb_usage_t end = hb_usage_now();
    for (uint32_t i = 0; i < slots; i++) {
        hb_block_free(block[i].bytes, block[i].size, i);
    }
    const hb_usage_t usage = hb_usage_between(&begin, &end);
    hb_report(&program, ops, &usage, NULL);
    return 0;
}
