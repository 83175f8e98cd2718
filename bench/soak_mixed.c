/* soak_mixed: the random_mixed workload for a given time in one process, epoch by epoch. */
#include <inttypes.h>
#include <stdio.h>

#include "harness/epochs.h"
#include "harness/measure.h"
#include "harness/mix.h"

static double seconds, epoch_sec;
static uint64_t ws, seed, min_size, max_size;
static unsigned mode;

static const hb_option_t options[] = {
    {HB_REAL, "seconds", &seconds, .start = "60", .smoke = "0.4", .doc = "length of the soak"},
    {HB_REAL, "epoch-sec", &epoch_sec, .start = "1", .smoke = "0.1",
     .env = "HAKMEM_BENCH_EPOCH_SEC", .doc = "length of an epoch in seconds"},
    {HB_UINT, "ws", &ws, .start = "8192", .smoke = "1000", .min = 1, .max = 100000000,
     .doc = "slots; about half of them are occupied"},
    {HB_UINT, "seed", &seed, .start = "1234567", .min = 1, .max = UINT32_MAX,
     .doc = "of the random stream"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .max = 1 << 30,
     .env = "HAKMEM_BENCH_MIN_SIZE", .doc = "smaller sizes are raised to this"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .max = 1 << 30,
     .env = "HAKMEM_BENCH_MAX_SIZE", .doc = "larger sizes are lowered to this"},
    {HB_WORD, "mode", &mode, .start = "malloc", .smoke = "check", .words = MIX_MODES,
     .env = "HAKMEM_BENCH_FAST_MODE", .env_word = "fast",
     .doc = "where the blocks come from; see bench_random_mixed --help"},
};

static const hb_program_t program = {
    .name = "soak_mixed",
    .summary = "the random_mixed workload for a given time in one process, epoch by epoch",
    .operation = "one malloc or one free",
    .notes = "Ten operations per slot run untimed beforehand.\n" HB_EPOCH_NOTES,
    .options = options,
    .count = sizeof options / sizeof *options,
};

int main(int argc, char **argv) {
    static mix_t mix;
    char extra[64];
    hb_options_parse(&program, argc, argv);
    mix_open(&mix, (mix_mode_t)mode, ws, min_size, max_size);
    mix_seed(&mix, mix_other_seed((uint32_t)seed));
    mix_run(&mix, 10 * ws);
    mix_seed(&mix, (uint32_t)seed);
    const hb_soak_t soak = hb_epochs_run(&mix, UINT64_MAX, seconds, epoch_sec);
    mix_drain(&mix);
    if (soak.epochs == 0) {
        hb_die("--seconds=0 leaves no time for an epoch");
    }
    snprintf(extra, sizeof extra, "\"epochs\":%" PRIu64, soak.epochs);
    hb_report(&program, soak.ops, &soak.usage, extra);
    return 0;
}
