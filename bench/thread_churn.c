/* thread_churn: short-lived threads come and go; each leaves some blocks to a successor. */
#include <string.h>

#include "harness/blocks.h"
#include "harness/measure.h"

#include <pthread.h>

#define MAX_ALIVE 256

static uint64_t alive, total, blocks, leave, min_size, max_size;

static const hb_option_t options[] = {
    {HB_UINT, "alive", &alive, .start = "8", .min = 1, .max = MAX_ALIVE,
     .doc = "threads at a time"},
    {HB_UINT, "total", &total, .start = "20000", .smoke = "100", .min = 1, .doc = "threads in all"},
    {HB_UINT, "blocks", &blocks, .start = "200", .min = 1, .max = 1 << 20,
     .doc = "blocks each thread allocates"},
    {HB_UINT, "leave", &leave, .start = "20", .doc = "of which it leaves to its successor to free"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .doc = "largest size in bytes"},
};

static const hb_program_t program = {
    .name = "thread_churn",
    .summary = "threads come and go: a thread per request or per task",
    .operation = "one thread's whole life",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* One of the places for live threads. Owner: its thread, and main while it has none. */
typedef struct {
    _Alignas(128)
        hb_block_t *block; /* const: `blocks` of them; the first `left` are alive between threads */
    uint64_t left;
    uint64_t threads; /* that have been here */
    pthread_t thread;
    uint32_t x;
} place_t;

static void free_left(place_t *place) {
    for (uint32_t i = 0; i < place->left; i++) {
        hb_block_free(place->block[i].bytes, place->block[i].size, i);
    }
    place->left = 0;
}

static void *live(void *argument) {
    place_t *place = argument;
    free_left(place);
    for (uint32_t i = 0; i < blocks; i++) {
        const size_t size = hb_between(hb_next(&place->x), min_size, max_size);
        place->block[i] = (hb_block_t){hb_block_new(size, i), size};
    }
    for (uint32_t i = (uint32_t)leave; i < blocks; i++) {
        hb_block_free(place->block[i].bytes, place->block[i].size, i);
    }
    place->left = leave;
    return NULL;
}

static void join(place_t *place) {
    if (place->threads != 0) {
        pthread_join(place->thread, NULL);
    }
}

int main(int argc, char **argv) {
    static place_t places[MAX_ALIVE];
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size || leave > blocks) {
        hb_die(min_size > max_size ? "--min is above --max" : "--leave is above --blocks");
    }
    for (unsigned i = 0; i < alive; i++) {
        places[i].block = hb_map(blocks * sizeof *places[i].block);
        places[i].x = hb_seed(1, i);
    }
    const hb_usage_t begin = hb_usage_now();
    for (uint64_t n = 0; n < total; n++) {
        place_t *place = &places[n % alive];
        join(place);
        const int error = pthread_create(&place->thread, NULL, live, place);
        if (error != 0) {
            hb_die("pthread_create: %s", strerror(error));
        }
        place->threads++;
    }
    for (unsigned i = 0; i < alive; i++) {
        join(&places[i]);
    }
    const hb_usage_t end = hb_usage_now();
    for (unsigned i = 0; i < alive; i++) {
        free_left(&places[i]);
    }
    const hb_usage_t usage = hb_usage_between(&begin, &end);
    hb_report(&program, total, &usage, NULL);
    return 0;
}
