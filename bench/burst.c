/* burst: batches of small blocks are allocated by one thread and freed by another (xmalloc-test).
 */
#include "harness/blocks.h"
#include "harness/team.h"

enum { SPLIT, BOTH };
#define BATCH_BLOCKS 4096

static uint64_t threads, batches, size, depth;
static unsigned style;

static const hb_option_t options[] = {
    {HB_UINT, "threads", &threads, .start = "2", .min = 1, .max = HB_MAX_LANES, .doc = "threads"},
    {HB_UINT, "batches", &batches, .start = "12000", .smoke = "40", .min = 1,
     .doc = "batches of 4096 blocks, by all threads in equal shares"},
    {HB_UINT, "size", &size, .start = "64", .min = 1, .max = 1 << 30, .doc = "bytes of a block"},
    {HB_UINT, "depth", &depth, .start = "16", .min = 1,
     .doc = "batches that may wait for the same thread"},
    {HB_WORD, "style", &style, .start = "split", .words = "split|both",
     .doc = "split: half of the threads allocate, half free; both: each thread allocates a batch\n"
            "      for its neighbour and frees one of its other neighbour's"},
};

static const hb_program_t program = {
    .name = "burst",
    .summary = "bursts of equal blocks freed by another thread (the xmalloc pattern)",
    .operation = "one block allocated here and freed there",
    .notes = "A batch, itself from malloc, is a link and 4096 pointers: 32776 bytes.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

typedef struct batch {
    struct batch *next;
    unsigned char *block[BATCH_BLOCKS];
} batch_t;

/* Batches on their way to one thread, first in, first out. Equation: waiting <= depth. */
typedef struct {
    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t changed;
    batch_t *first;   /* lock */
    batch_t *last;    /* lock */
    uint64_t waiting; /* lock */
} inbox_t;

static void put(inbox_t *inbox, batch_t *batch) {
    batch->next = NULL;
    pthread_mutex_lock(&inbox->lock);
    while (inbox->waiting == depth) {
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    }
    if (inbox->waiting++ == 0) {
        inbox->first = batch;
    } else {
        inbox->last->next = batch;
    }
    inbox->last = batch;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}

static batch_t *take(inbox_t *inbox) {
    pthread_mutex_lock(&inbox->lock);
    while (inbox->waiting == 0) {
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    }
    batch_t *batch = inbox->first;
    inbox->first = batch->next;
    inbox->waiting--;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
    return batch;
}

static void allocate_batch(inbox_t *inbox) {
    batch_t *batch = malloc(sizeof *batch);
    if (batch == NULL) {
        hb_out_of_memory(sizeof *batch);
    }
    for (uint32_t i = 0; i < BATCH_BLOCKS; i++) {
        batch->block[i] = hb_block_new(size, i);
    }
    put(inbox, batch);
}

static void free_batch(inbox_t *inbox) {
    batch_t *batch = take(inbox);
    for (uint32_t i = 0; i < BATCH_BLOCKS; i++) {
        hb_block_free(batch->block[i], size, i);
    }
    free(batch);
}

static uint64_t batches_per_allocator(void) {
    return batches / (style == SPLIT ? threads / 2 : threads);
}

static void body(hb_team_t *team, unsigned lane, void *context) {
    inbox_t *inbox = context;
    const uint64_t share = batches_per_allocator();
    hb_team_start(team);
    for (uint64_t n = 0; n < share; n++) {
        if (style == BOTH) {
            allocate_batch(&inbox[(lane + 1) % team->lanes]);
            free_batch(&inbox[lane]);
        } else if (lane % 2 == 0) {
            allocate_batch(&inbox[lane + 1]);
        } else {
            free_batch(&inbox[lane]);
        }
    }
    hb_team_finish(team);
}

int main(int argc, char **argv) {
    static inbox_t inbox[HB_MAX_LANES];
    hb_options_parse(&program, argc, argv);
    if (style == SPLIT && threads % 2 != 0) {
        hb_die("--style=split needs an even number of threads");
    }
    if (batches_per_allocator() == 0) {
        hb_die("--batches=%ju is less than one batch per thread", (uintmax_t)batches);
    }
    for (uint64_t i = 0; i < threads; i++) {
        pthread_mutex_init(&inbox[i].lock, NULL);
        pthread_cond_init(&inbox[i].changed, NULL);
    }
    const hb_usage_t usage = hb_team_run((unsigned)threads, body, inbox);
    const uint64_t allocators = style == SPLIT ? threads / 2 : threads;
    hb_report(&program, batches_per_allocator() * allocators * BATCH_BLOCKS, &usage, NULL);
    return 0;
}
