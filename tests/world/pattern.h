// Byte patterns that show whether a block kept its contents, and self-describing blocks that any
// thread or process can verify without knowing who made them.
#ifndef WORLD_PATTERN_H
#define WORLD_PATTERN_H

#include "check.h"

#include <stdint.h>

static inline uint64_t rng_next(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static inline size_t rng_below(uint64_t *state, size_t bound) {
    return (size_t)((rng_next(state) >> 16) % bound);
}

// Sizes spread evenly over the powers of two up to max: small blocks stay the most frequent.
static inline size_t rng_size(uint64_t *state, size_t max) {
    size_t bits = 1;
    while (bits < 40 && ((size_t)1 << bits) < max)
        bits++;
    size_t bound = (size_t)1 << (rng_below(state, bits) + 1);
    size_t n = rng_below(state, bound);
    return n <= max ? n : max;
}

static inline uint64_t pattern_word(uint64_t seed, size_t index) {
    return (seed + index + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline void pattern_fill(void *block, size_t n, uint64_t seed) {
    unsigned char *bytes = block;
    size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++) {
        uint64_t word = pattern_word(seed, i);
        memcpy(bytes + i * 8, &word, 8);
    }
    uint64_t last = pattern_word(seed, whole);
    memcpy(bytes + whole * 8, &last, n % 8);
}

// The offset of the first wrong word, or n when all n bytes are right.
static inline size_t pattern_mismatch(const void *block, size_t n, uint64_t seed) {
    const unsigned char *bytes = block;
    size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * 8, 8);
        if (word != pattern_word(seed, i))
            return i * 8;
    }
    uint64_t last = pattern_word(seed, whole);
    return memcmp(bytes + whole * 8, &last, n % 8) == 0 ? n : whole * 8;
}

#define CHECK_PATTERN(block, n, seed)                                                              \
    do {                                                                                           \
        size_t bad_at = pattern_mismatch((block), (n), (seed));                                    \
        CHECK(bad_at == (n), "contents of %p (%zu bytes) changed at offset %zu", (void *)(block),  \
              (size_t)(n), bad_at);                                                                \
    } while (0)

typedef struct {
    uint64_t size; // whole block, this header included
    uint64_t seed;
} block_t;

static inline block_t *block_fill(void *memory, size_t n, uint64_t seed) {
    block_t *block = memory;
    block->size = n;
    block->seed = seed;
    pattern_fill(block + 1, n - sizeof *block, seed ^ n);
    return block;
}

static inline block_t *block_new(size_t n, uint64_t seed) {
    if (n < sizeof(block_t))
        n = sizeof(block_t);
    void *memory = malloc(n);
    CHECK(memory != NULL, "malloc(%zu) failed", n);
    return block_fill(memory, n, seed);
}

static inline void block_check(const block_t *block) {
    CHECK(block->size >= sizeof *block && block->size < (UINT64_C(1) << 40),
          "header of %p overwritten: size %llu", (const void *)block,
          (unsigned long long)block->size);
    size_t n = block->size - sizeof *block;
    size_t bad_at = pattern_mismatch(block + 1, n, block->seed ^ block->size);
    CHECK(bad_at == n, "contents of %p (%zu bytes) changed at offset %zu", (const void *)block,
          n + sizeof *block, bad_at + sizeof *block);
}

static inline void block_delete(block_t *block) {
    if (block == NULL)
        return;
    block_check(block);
    free(block);
}

#endif
