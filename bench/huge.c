/* huge: blocks of 5 to 25 MiB, which allocators like to map and unmap each time. */
#include "harness/replace.h"

static uint64_t ops, slots, min_mib, max_mib, seed;
static unsigned touch;

static const hb_option_t options[] = {
    {HB_UINT, "ops", &ops, .start = "1000", .smoke = "4", .min = 1, .doc = "blocks replaced"},
    {HB_UINT, "slots", &slots, .start = "16", .smoke = "3", .min = 1, .max = 1 << 20,
     .doc = "blocks alive"},
    {HB_UINT, "min-mib", &min_mib, .start = "5", .min = 1, .max = 1 << 20,
     .doc = "smallest size in MiB"},
    {HB_UINT, "max-mib", &max_mib, .start = "25", .smoke = "10", .min = 1, .max = 1 << 20,
     .doc = "largest size in MiB"},
    {HB_WORD, "touch", &touch, .start = "page", .words = TOUCH_WORDS,
     .doc = "what is written: nothing but the first byte, one byte per 4 KiB, the first and the\n"
            "      last byte of each 4 KiB, or all"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and slots"},
};

static const hb_program_t program = {
    .name = "huge",
    .summary = "huge buffers replaced at random",
    .operation = "one free and one malloc",
    .options = options,
    .count = sizeof options / sizeof *options,
};

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    const hb_usage_t usage =
        hb_replace_run(ops, slots, min_mib << 20, max_mib << 20, (touch_t)touch, seed);
    hb_report(&program, ops, &usage, NULL);
    return 0;
}
