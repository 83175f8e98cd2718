/* larson: server threads replace blocks at random; generations of threads inherit them. */
#include <string.h>

#include "harness/blocks.h"
#include "harness/team.h"

static uint64_t ops, threads, slots, min_size, max_size, generations, seed;

static const hb_option_t options[] = {
    {HB_UINT, "threads", &threads, .start = "2", .min = 1, .max = HB_MAX_LANES,
     .doc = "threads at a time"},
    {HB_UINT, "ops", &ops, .start = "40000000", .smoke = "40000", .min = 1,
     .doc = "blocks replaced, by all threads and generations in equal shares"},
    {HB_UINT, "slots", &slots, .start = "5000", .smoke = "500", .min = 1, .max = 1 << 28,
     .doc = "live blocks of a thread"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .doc = "largest size in bytes"},
    {HB_UINT, "generations", &generations, .start = "1", .smoke = "4", .min = 1,
     .doc = "threads one after the other in each place; each inherits the live blocks of its\n"
            "      predecessor, which exits"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX,
     .doc = "of sizes and slots"},
};

static const hb_program_t program = {
    .name = "larson",
    .summary = "server churn: threads replace blocks at random, successors inherit them",
    .operation = "one free and one malloc",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* What is handed from generation to generation. Owner: the thread that holds the lane. Aligned, so
 * that threads do not write to each other's cache lines, nor to the pairs that processors prefetch.
 */
typedef struct {
    _Alignas(128) hb_team_t *team;
    hb_block_t *block;
    uint64_t generation;
    uint64_t share; /* const: operations of one generation */
    uint32_t x;
    unsigned lane;
} place_t;

static void *inherit(void *argument);

static hb_block_t new_block(place_t *place, uint32_t tag) {
    const size_t size = hb_between(hb_next(&place->x), min_size, max_size);
    return (hb_block_t){hb_block_new(size, tag), size};
}

static void drain(place_t *place) {
    for (uint32_t i = 0; i < slots; i++) {
        hb_block_free(place->block[i].bytes, place->block[i].size, i);
    }
}

/* One generation's work; then the next generation, or the end. */
static void work(place_t *place) {
    for (uint64_t n = 0; n < place->share; n++) {
        const uint32_t i = (uint32_t)hb_between(hb_next(&place->x), 0, slots - 1);
        hb_block_free(place->block[i].bytes, place->block[i].size, i);
        place->block[i] = new_block(place, i);
    }
    if (++place->generation < generations) {
        pthread_t successor;
        const int error = pthread_create(&successor, NULL, inherit, place);
        if (error != 0) {
            hb_die("pthread_create: %s", strerror(error));
        }
        return;
    }
    hb_team_finish(place->team);
    drain(place);
}

/* The predecessor is joined late, so that its exit overlaps with its successor's work. */
static void *inherit(void *argument) {
    place_t *place = argument;
    const pthread_t predecessor = hb_team_succeed(place->team, place->lane);
    work(place);
    pthread_join(predecessor, NULL);
    return NULL;
}

static void body(hb_team_t *team, unsigned lane, void *context) {
    place_t *place = (place_t *)context + lane;
    *place = (place_t){.team = team, .lane = lane, .x = hb_seed(seed, lane)};
    place->share = ops / threads / generations;
    place->block = hb_map(slots * sizeof *place->block);
    for (uint32_t i = 0; i < slots; i++) {
        place->block[i] = new_block(place, i);
    }
    hb_team_start(team);
    work(place);
}

int main(int argc, char **argv) {
    static place_t places[HB_MAX_LANES];
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size) {
        hb_die("--min is above --max");
    }
    const uint64_t share = ops / threads / generations;
    if (share == 0) {
        hb_die("--ops=%ju is less than one operation per thread and generation", (uintmax_t)ops);
    }
    const hb_usage_t usage = hb_team_run((unsigned)threads, body, places);
    hb_report(&program, share * threads * generations, &usage, NULL);
    return 0;
}
