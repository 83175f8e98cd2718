/*
 * The random_mixed workload: one loop, compiled once for each place a block can come from.
 *
 * Per operation: r = xorshift32; slot = r mod ws; an occupied slot is freed; an empty one gets a
 * block of clamp(16 + (r & 0x3FF), min, max) bytes, whose first byte is written.
 */
#ifndef HB_MIX_H
#define HB_MIX_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    MIX_MALLOC, /* malloc and free */
    MIX_FAST,   /* BenchFast: per-class pools filled beforehand, no allocator in the loop */
    MIX_NULL,   /* the null floor: slot i always gets the i-th 64-byte line of a buffer */
    MIX_CHECK,  /* malloc and free, every block counted, filled and verified */
} mix_mode_t;

#define MIX_MODES "malloc|fast|null|check"

/* One size class of BenchFast: a stack of the addresses of its free blocks. */
#define MIX_CLASSES 65 /* 16-byte steps from 16 to 1039 */
typedef struct {
    void **top[MIX_CLASSES]; /* one past the last free block; below the first lies a NULL */
    unsigned char *base;     /* class c owns [base + (c << shift), base + ((c + 1) << shift)) */
    unsigned shift;
    uint32_t smallest; /* sizes smallest + 16c … smallest + 16c + 15 belong to class c */
} mix_pools_t;

/* What MIX_CHECK remembers of the block in a slot. */
typedef struct {
    uint32_t size;
    uint32_t random;
} mix_note_t;

typedef struct {
    mix_mode_t mode;      /* const */
    uint32_t ws;          /* const: number of slots */
    uint32_t min;         /* const: smallest size in bytes */
    uint32_t max;         /* const: largest size in bytes */
    uint32_t x;           /* state of the random stream */
    void **slots;         /* NULL: empty */
    unsigned char *lines; /* MIX_NULL */
    mix_pools_t pools;    /* MIX_FAST */
    mix_note_t *notes;    /* MIX_CHECK */
    uint64_t mallocs;     /* MIX_CHECK: blocks taken … */
    uint64_t bytes;       /* … and the sum of their sizes, since mix_seed() */
} mix_t;

/* Sets everything up outside the heap. */
void mix_open(mix_t *mix, mix_mode_t mode, uint64_t ws, uint64_t min, uint64_t max);

/* Starts a random stream; the slots stay as they are. */
void mix_seed(mix_t *mix, uint32_t seed);

/* The seed of the untimed pass that precedes a run with `seed`. */
uint32_t mix_other_seed(uint32_t seed);

void mix_run(mix_t *mix, uint64_t ops);

/*
 * Bytes in the blocks now in the slots, as malloc_usable_size() counts them; 0 in the modes without
 * an allocator. Above MIX_COUNTED slots an estimate from that many of them.
 */
#define MIX_COUNTED 65536
uint64_t mix_live_bytes(const mix_t *mix);

/* Gives all blocks back. */
void mix_drain(mix_t *mix);

#endif
