/* containers: maps, queues, strings and vectors of the C++ library, as C++ programs allocate. */
#include "containers_work.h"

#include "harness/blocks.h"
#include "harness/team.h"

static uint64_t threads, rounds, entries, seed;

static const hb_option_t options[] = {
    {HB_UINT, "threads", &threads, .start = "2", .min = 1, .max = HB_MAX_LANES, .doc = "threads"},
    {HB_UINT, "rounds", &rounds, .start = "2000000", .smoke = "4000", .min = 1,
     .doc = "rounds, by all threads in equal shares"},
    {HB_UINT, "entries", &entries, .start = "10000", .smoke = "200", .min = 1, .max = 1 << 28,
     .doc = "of each thread's map, and strings in its queue"},
    {HB_UINT, "seed", &seed, .start = "1", .doc = "of the random streams"},
};

static const hb_program_t program = {
    .name = "containers",
    .summary = "maps, queues, strings and vectors of the C++ library",
    .operation = "an entry of a map put in or taken out, a string through a queue, a vector filled",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static void body(hb_team_t *team, unsigned lane, void *context) {
    (void)context;
    containers_t *containers = containers_new(entries, hb_seed(seed, lane));
    hb_team_start(team);
    const uint64_t damaged = containers_run(containers, rounds / threads, hb_smoke);
    hb_team_finish(team);
    if (damaged != 0) {
        hb_die("%ju values are not what was put in", (uintmax_t)damaged);
    }
    containers_delete(containers);
}

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    if (rounds < threads) {
        hb_die("--rounds=%ju is less than one round per thread", (uintmax_t)rounds);
    }
    const hb_usage_t usage = hb_team_run((unsigned)threads, body, NULL);
    hb_report(&program, rounds / threads * threads, &usage, NULL);
    return 0;
}
