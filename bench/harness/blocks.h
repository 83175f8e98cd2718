/*
 * What the benchmarks do to a block: random sizes, the first byte written, and under --smoke every
 * byte filled and verified, so that overlapping or moved blocks are noticed.
 */
#ifndef HB_BLOCKS_H
#define HB_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "options.h"
#include "text.h"

typedef struct {
    unsigned char *bytes;
    size_t size;
} hb_block_t;

/* xorshift32; never 0 from a seed that is not 0. */
static inline uint32_t hb_next(uint32_t *x) {
    uint32_t r = *x;
    r ^= r << 13;
    r ^= r >> 17;
    r ^= r << 5;
    *x = r;
    return r;
}

/* A seed for one of several streams, never 0. */
static inline uint32_t hb_seed(uint64_t seed, unsigned stream) {
    const uint32_t x = ((uint32_t)seed + stream) * UINT32_C(0x9E3779B1);
    return x != 0 ? x : 1;
}

/* A number from low to high, both included, without a division. */
static inline size_t hb_between(uint32_t random, size_t low, size_t high) {
    return low + (size_t)(((uint64_t)random * (uint64_t)(high - low + 1)) >> 32);
}

/* Fills or verifies every byte; hb_verify ends the program on damage. */
void hb_fill(unsigned char *bytes, size_t size, uint32_t tag);
void hb_verify(const unsigned char *bytes, size_t size, uint32_t tag);

_Noreturn void hb_out_of_memory(size_t size);

/* Zeroed memory straight from the kernel, outside the heap being measured; never unmapped. The
   pages of hb_map are there at once, those of hb_reserve when they are first written to. */
void *hb_map(size_t bytes);
void *hb_reserve(size_t bytes);

/* Makes the allocator's answer usable: not NULL, and written to. */
static inline void hb_block_open(unsigned char *bytes, size_t size, uint32_t tag) {
    if (__builtin_expect(bytes == NULL, 0)) {
        hb_out_of_memory(size);
    }
    if (__builtin_expect(hb_smoke, 0)) {
        hb_fill(bytes, size, tag);
    } else {
        bytes[0] = (unsigned char)tag;
    }
}

static inline unsigned char *hb_block_new(size_t size, uint32_t tag) {
    unsigned char *bytes = malloc(size);
    hb_block_open(bytes, size, tag);
    return bytes;
}

/* The timed runs do not read the block: its cache misses are the benchmark's, not the allocator's.
 */
static inline void hb_block_free(unsigned char *bytes, size_t size, uint32_t tag) {
    if (__builtin_expect(hb_smoke, 0)) {
        hb_verify(bytes, size, tag);
    }
    free(bytes);
}

#endif
