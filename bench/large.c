/* large: blocks of 40 KiB to 2 MiB, the buffers of compressors, image and network code. */
#include "harness/replace.h"

static uint64_t ops, slots, min_size, max_size, seed;
static unsigned touch;

static const hb_option_t options[] = {
    {HB_UINT, "ops", &ops, .start = "100000", .smoke = "60", .min = 1, .doc = "blocks replaced"},
    {HB_UINT, "slots", &slots, .start = "64", .smoke = "8", .min = 1, .max = 1 << 20,
     .doc = "blocks alive"},
    {HB_UINT, "min", &min_size, .start = "40K", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "2M", .min = 1, .doc = "largest size in bytes"},
    {HB_WORD, "touch", &touch, .start = "ends", .words = TOUCH_WORDS,
     .doc = "what is written: nothing but the first byte, one byte per 4 KiB, the first and the\n"
            "      last byte of each 4 KiB, or all"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and slots"},
};

static const hb_program_t program = {
    .name = "large",
    .summary = "large buffers replaced at random",
    .operation = "one free and one malloc",
    .options = options,
    .count = sizeof options / sizeof *options,
};

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    const hb_usage_t usage = hb_replace_run(ops, slots, min_size, max_size, (touch_t)touch, seed);
    hb_report(&program, ops, &usage, NULL);
    return 0;
}
