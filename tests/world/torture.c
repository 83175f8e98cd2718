// torture THREADS OPERATIONS MAX_SIZE: random calls of every entry point on a shared table; each
// block is verified whole by whichever thread frees or resizes it.
#include "pattern.h"

#include <malloc.h>
#include <pthread.h>

enum { SLOTS = 1500, MAX_THREADS = 200 };

typedef struct {
    pthread_mutex_t lock;
    void *block;
    size_t n;
    uint64_t seed;
} slot_t;

static slot_t slots[SLOTS];
static size_t operations, max_size;

static void *allocate(uint64_t *rng, size_t n) {
    size_t align = (size_t)8 << rng_below(rng, rng_below(rng, 8) == 0 ? 14 : 6);
    void *block = NULL;
    switch (rng_below(rng, 8)) {
    case 0:
        block = calloc(1, n);
        for (size_t i = 0; block != NULL && i < n; i++)
            CHECK(((unsigned char *)block)[i] == 0, "calloc(1, %zu) is dirty at %zu", n, i);
        return block;
    case 1:
        CHECK(posix_memalign(&block, align, n) == 0, "posix_memalign(%zu, %zu)", align, n);
        break;
    case 2:
        block = aligned_alloc(align, n);
        break;
    case 3:
        return realloc(NULL, n);
    default:
        return malloc(n);
    }
    CHECK((uintptr_t)block % align == 0, "alignment %zu, size %zu: %p", align, n, block);
    return block;
}

static void fill(slot_t *slot, size_t n, uint64_t seed) {
    slot->n = n;
    slot->seed = seed;
    pattern_fill(slot->block, n, seed);
}

static void resize(slot_t *slot, size_t n, uint64_t seed) {
    void *moved = realloc(slot->block, n);
    CHECK(moved != NULL, "realloc(p, %zu)", n);
    slot->block = moved;
    CHECK_PATTERN(moved, n < slot->n ? n : slot->n, slot->seed);
    fill(slot, n, seed);
}

static void operate(uint64_t *rng) {
    slot_t *slot = &slots[rng_below(rng, SLOTS)];
    size_t n = rng_size(rng, max_size);
    pthread_mutex_lock(&slot->lock);
    if (slot->block == NULL) {
        slot->block = allocate(rng, n);
        CHECK(slot->block != NULL, "allocation of %zu bytes", n);
        CHECK(malloc_usable_size(slot->block) >= n, "usable size of %zu bytes", n);
        fill(slot, n, rng_next(rng));
    } else {
        CHECK_PATTERN(slot->block, slot->n, slot->seed);
        if (rng_below(rng, 4) == 0) {
            resize(slot, n + 1, rng_next(rng)); // never to 0: that may free
        } else {
            free(slot->block);
            slot->block = NULL;
        }
    }
    pthread_mutex_unlock(&slot->lock);
}

static void *run(void *seed) {
    uint64_t rng = (uint64_t)(uintptr_t)seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (size_t i = 0; i < operations; i++)
        operate(&rng);
    return NULL;
}

static int by_address(const void *a, const void *b) {
    const slot_t *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

static void check_disjoint(void) {
    qsort(slots, SLOTS, sizeof *slots, by_address);
    for (size_t i = 0; i + 1 < SLOTS; i++)
        if (slots[i].block != NULL)
            CHECK((uintptr_t)slots[i].block + malloc_usable_size(slots[i].block) <=
                      (uintptr_t)slots[i + 1].block,
                  "%p (%zu usable) runs into %p", slots[i].block,
                  malloc_usable_size(slots[i].block), slots[i + 1].block);
}

int main(int argc, char **argv) {
    world_begin(120);
    CHECK(argc == 4, "usage: torture THREADS OPERATIONS MAX_SIZE");
    size_t threads = strtoul(argv[1], NULL, 10);
    operations = strtoul(argv[2], NULL, 10);
    max_size = strtoul(argv[3], NULL, 10);
    CHECK(threads >= 1 && threads <= MAX_THREADS && operations > 0, "arguments");
    for (size_t i = 0; i < SLOTS; i++)
        pthread_mutex_init(&slots[i].lock, NULL);
    pthread_t ids[MAX_THREADS];
    for (size_t i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], NULL, run, (void *)(i + 1)) == 0, "pthread_create");
    for (size_t i = 0; i < threads; i++)
        CHECK(pthread_join(ids[i], NULL) == 0, "pthread_join");
    check_disjoint();
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].block != NULL) {
            CHECK_PATTERN(slots[i].block, slots[i].n, slots[i].seed);
            free(slots[i].block);
        }
    return 0;
}
