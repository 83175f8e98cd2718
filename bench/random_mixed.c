/* random_mixed: blocks of 16 to 1040 bytes come and go in random slots of one thread. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#ifdef BENCH_LINKED_HAKMEM
#include <hakmem/hakmem.h>
#endif

#include "harness/epochs.h"
#include "harness/measure.h"
#include "harness/mix.h"

#ifdef BENCH_LINKED_HAKMEM
#define NAME BENCH_LINKED_HAKMEM
#else
#define NAME "random_mixed"
#endif

static uint64_t iter, ws, seed, min_size, max_size, warmup;
static double epoch_sec;
static unsigned mode;

static const hb_option_t options[] = {
    {HB_UINT, "iter", &iter, .start = "10000000", .smoke = "200000", .min = 1, .positional = true,
     .doc = "timed operations"},
    {HB_UINT, "ws", &ws, .start = "8192", .smoke = "1000", .min = 1, .max = 100000000,
     .positional = true, .doc = "slots; about half of them are occupied"},
    {HB_UINT, "seed", &seed, .start = "1234567", .min = 1, .max = UINT32_MAX, .positional = true,
     .doc = "of the random stream"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .max = 1 << 30, .positional = true,
     .env = "HAKMEM_BENCH_MIN_SIZE", .doc = "smaller sizes are raised to this"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .max = 1 << 30, .positional = true,
     .env = "HAKMEM_BENCH_MAX_SIZE", .doc = "larger sizes are lowered to this"},
    {HB_UINT, "warmup", &warmup, .start = "0", .env = "HAKMEM_BENCH_WARMUP",
     .doc = "untimed operations besides the prefault pass of iter/10"},
    {HB_REAL, "epoch-sec", &epoch_sec, .start = "0", .env = "HAKMEM_BENCH_EPOCH_SEC",
     .doc = "above 0: run as a soak with epochs of this many seconds"},
    {HB_WORD, "mode", &mode, .start = "malloc", .smoke = "check", .words = MIX_MODES,
     .env = "HAKMEM_BENCH_FAST_MODE", .env_word = "fast", .doc = "where the blocks come from"},
};

static const hb_program_t program = {
    .name = NAME,
    .summary = "blocks of 16 to 1040 bytes come and go in random slots of one thread",
    .operation = "one malloc or one free",
    .notes =
        "Modes: malloc is the allocator; fast takes every block from a pool of its size class\n"
        "that was filled beforehand, with no allocator in the loop (the limit of any front\n"
        "end); null always gives slot i the i-th 64-byte line of a buffer (the floor under\n"
        "all results); check is malloc with every block counted, filled and verified.\n\n"
        "With --epoch-sec:\n" HB_EPOCH_NOTES,
    .options = options,
    .count = sizeof options / sizeof *options,
};

int main(int argc, char **argv) {
    static mix_t mix;
    char extra[128] = "";
    hb_options_parse(&program, argc, argv);
#ifdef BENCH_LINKED_HAKMEM
    if (!hak_is_serving()) {
        hb_die("this program is linked to hakmem, but its malloc is another one");
    }
#endif
    mix_open(&mix, (mix_mode_t)mode, ws, min_size, max_size);
    mix_seed(&mix, mix_other_seed((uint32_t)seed));
    mix_run(&mix, iter / 10 + warmup);
    mix_seed(&mix, (uint32_t)seed);

    hb_soak_t result = {.ops = iter};
    if (epoch_sec > 0) {
        result = hb_epochs_run(&mix, iter, INFINITY, epoch_sec);
    } else {
        const hb_usage_t begin = hb_usage_now();
        mix_run(&mix, iter);
        const hb_usage_t end = hb_usage_now();
        result.usage = hb_usage_between(&begin, &end);
    }
    if (mode == MIX_CHECK) {
        snprintf(extra, sizeof extra, "\"mallocs\":%" PRIu64 ",\"bytes\":%" PRIu64, mix.mallocs,
                 mix.bytes);
    }
    mix_drain(&mix);
    hb_report(&program, result.ops, &result.usage, extra[0] ? extra : NULL);
    return 0;
}
