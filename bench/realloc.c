/* realloc: several vectors grow in turn, geometrically and in fixed steps. */
#include <string.h>

#include "harness/blocks.h"
#include "harness/measure.h"

enum { GEOMETRIC, FIXED, EVERY };

static const size_t os_page = 4096;
static uint64_t max_size, fixed_max, vectors, rounds;
static unsigned growth;

static const hb_option_t options[] = {
    {HB_UINT, "max", &max_size, .start = "16M", .smoke = "256K", .min = 4096, .max = 1ULL << 40,
     .doc = "final size of a vector that grows by half each time, in bytes"},
    {HB_UINT, "fixed-max", &fixed_max, .start = "1M", .smoke = "128K", .min = 4096,
     .max = 1ULL << 40,
     .doc = "the same for one that grows by 4 KiB each time; copying makes this quadratic"},
    {HB_UINT, "vectors", &vectors, .start = "4", .min = 1, .max = 1 << 20,
     .doc = "vectors that grow in turn, and so get in each other's way"},
    {HB_UINT, "rounds", &rounds, .start = "20", .smoke = "2", .min = 1,
     .doc = "times that all vectors grow"},
    {HB_WORD, "growth", &growth, .start = "both", .words = "geometric|fixed|both",
     .doc = "from 16 bytes by half each time, by 4 KiB each time, or a round of each"},
};

static const hb_program_t program = {
    .name = "realloc",
    .summary = "vectors grown by realloc: push_back, string builders, network buffers",
    .operation = "one realloc",
    .notes = "Each new page is written; the first and the last bytes are verified at each step.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static size_t next_size(size_t size, size_t last, bool geometric) {
    size_t next = size + os_page;
    if (geometric) {
        next = size == 0 ? 16 : size + size / 2;
    }
    return next < last ? next : last;
}

/* The ends of a vector carry its number and its size. */
static unsigned char mark_of(uint64_t vector, size_t size) {
    return (unsigned char)(vector * 31 + size / 7 + 1);
}

static void grow(hb_block_t *vector, uint64_t number, size_t size) {
    unsigned char *bytes = realloc(vector->bytes, size);
    if (bytes == NULL) {
        hb_out_of_memory(size);
    }
    const size_t old = vector->size;
    if (old != 0 && (bytes[0] != mark_of(number, 0) || bytes[old - 1] != mark_of(number, old))) {
        hb_die("a vector of %zu bytes was damaged by realloc to %zu", old, size);
    }
    if (hb_smoke) {
        hb_verify(bytes + 1, old > 2 ? old - 2 : 0, (uint32_t)number);
        hb_fill(bytes + 1, size - 2, (uint32_t)number);
    }
    for (size_t at = (old + os_page - 1) / os_page * os_page; !hb_smoke && at < size;
         at += os_page) {
        bytes[at] = 1;
    }
    bytes[0] = mark_of(number, 0);
    bytes[size - 1] = mark_of(number, size);
    *vector = (hb_block_t){bytes, size};
}

/* Grows all vectors to the full size and frees them; returns the number of reallocs. */
static uint64_t run_round(hb_block_t *vector, bool geometric) {
    const size_t last = geometric ? max_size : fixed_max;
    uint64_t ops = 0;
    for (size_t size = 0; size < last;) {
        size = next_size(size, last, geometric);
        for (uint64_t i = 0; i < vectors; i++) {
            grow(&vector[i], i, size);
        }
        ops += vectors;
    }
    for (uint64_t i = 0; i < vectors; i++) {
        free(vector[i].bytes);
        vector[i] = (hb_block_t){0};
    }
    return ops;
}

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
    hb_block_t *vector = hb_map(vectors * sizeof *vector);
    uint64_t ops = 0;
    const hb_usage_t begin = hb_usage_now();
    for (uint64_t i = 0; i < rounds; i++) {
        ops += growth == FIXED ? 0 : run_round(vector, true);
        ops += growth == GEOMETRIC ? 0 : run_round(vector, false);
    }
    const hb_usage_t end = hb_usage_now();
    const hb_usage_t usage = hb_usage_between(&begin, &end);
    hb_report(&program, ops, &usage, NULL);
    return 0;
}
