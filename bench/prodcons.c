/* prodcons: one thread allocates, another frees; a bounded ring between them. */
#include <sched.h>

#include "harness/blocks.h"
#include "harness/team.h"

static uint64_t items, ring_size, min_size, max_size, seed;

static const hb_option_t options[] = {
    {HB_UINT, "items", &items, .start = "20000000", .smoke = "50000", .min = 1,
     .doc = "blocks handed over"},
    {HB_UINT, "ring", &ring_size, .start = "1024", .min = 1, .max = 1 << 24,
     .doc = "places in the ring"},
    {HB_UINT, "min", &min_size, .start = "16", .min = 1, .doc = "smallest size in bytes"},
    {HB_UINT, "max", &max_size, .start = "1040", .min = 1, .doc = "largest size in bytes"},
    {HB_UINT, "seed", &seed, .start = "1", .min = 1, .max = UINT32_MAX, .doc = "of the sizes"},
};

static const hb_program_t program = {
    .name = "prodcons",
    .summary = "one thread allocates, another frees: pipelines, message queues",
    .operation = "one block handed over: a malloc here and a free there",
    .notes = "A side that has to wait spins and yields, so instruction counts vary a little.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/*
 * Single producer, single consumer. Equation: 0 <= put - taken <= ring_size. Each side keeps what
 * it last saw of the other's count on its own cache line.
 */
typedef struct {
    hb_block_t *place;                       /* const: ring_size of them */
    _Alignas(64) atomic_uint_fast64_t put;   /* written by the producer only */
    uint64_t taken_seen;                     /* producer only */
    _Alignas(64) atomic_uint_fast64_t taken; /* written by the consumer only */
    uint64_t put_seen;                       /* consumer only */
} ring_t;

/* Until *count has reached `least`; returns what it is then. */
static uint64_t wait_for(atomic_uint_fast64_t *count, uint64_t least) {
    for (unsigned spins = 0;; spins++) {
        const uint64_t now = atomic_load_explicit(count, memory_order_acquire);
        if (now >= least) {
            return now;
        }
        if (spins >= 100) {
            sched_yield();
        }
    }
}

static void produce(ring_t *ring) {
    uint32_t x = hb_seed(seed, 0);
    uint64_t index = 0;
    for (uint64_t n = 0; n < items; n++) {
        const size_t size = hb_between(hb_next(&x), min_size, max_size);
        unsigned char *bytes = hb_block_new(size, (uint32_t)n);
        if (n - ring->taken_seen == ring_size) {
            ring->taken_seen = wait_for(&ring->taken, n - ring_size + 1);
        }
        ring->place[index] = (hb_block_t){bytes, size};
        index = index + 1 < ring_size ? index + 1 : 0;
        atomic_store_explicit(&ring->put, n + 1, memory_order_release);
    }
}

static void consume(ring_t *ring) {
    uint64_t index = 0;
    for (uint64_t n = 0; n < items; n++) {
        if (n == ring->put_seen) {
            ring->put_seen = wait_for(&ring->put, n + 1);
        }
        const hb_block_t block = ring->place[index];
        index = index + 1 < ring_size ? index + 1 : 0;
        atomic_store_explicit(&ring->taken, n + 1, memory_order_release);
        hb_block_free(block.bytes, block.size, (uint32_t)n);
    }
}

static void body(hb_team_t *team, unsigned lane, void *context) {
    hb_team_start(team);
    (lane == 0 ? produce : consume)(context);
    hb_team_finish(team);
}

int main(int argc, char **argv) {
    static ring_t ring;
    hb_options_parse(&program, argc, argv);
    if (min_size > max_size) {
        hb_die("--min is above --max");
    }
    ring.place = hb_map(ring_size * sizeof *ring.place);
    const hb_usage_t usage = hb_team_run(2, body, &ring);
    hb_report(&program, items, &usage, NULL);
    return 0;
}
