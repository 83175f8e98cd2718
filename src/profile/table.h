/* A heap profile's data: the sampled blocks in use, by address, and the stacks that allocated them,
 * with sums. Blocks have a lock of their own rank, which is not held while a stack is read. Stacks
 * are never freed, so a writer of a profile reads them without it. */
#pragma once

#include "base/base.h"

/* Samples, and what they stand for: objects in 65536ths, and bytes. */
typedef struct {
    _Atomic uint64_t objects, bytes; /* atomic: written under the lock, any thread reads */
    _Atomic uint64_t all_objects, all_bytes;
} hk_profile_sums_t;
enum { HK_PROFILE_OBJECT = 65536 };
HK_INLINE uint64_t hk_profile_objects(const hk_profile_sums_t *sums) {
    return (hk_load_relaxed(&sums->all_objects) + HK_PROFILE_OBJECT / 2) / HK_PROFILE_OBJECT;
}

typedef struct hk_profile_stack {
    struct hk_profile_stack *before, *same_bucket; /* const: earlier stacks */
    hk_profile_sums_t in_use, allocated;
    hk_profile_sums_t unreached; /* as of the last search (profile/leaks.c) */
    uint32_t hash, count;        /* const */
    void *frames[];              /* const: return addresses, the innermost first */
} hk_profile_stack_t;

/* The newest stack; `before` leads to the others, of which many may have no blocks any more. NULL:
 * none, or the lock could not be taken in a fork's child. */
hk_profile_stack_t *hk_profile_stacks(void);

/* The process's sums of bytes in use and allocated, and samples lost for want of room. atomic:
 * written under the lock, any thread reads. */
extern _Atomic uint64_t hk_profile_in_use, hk_profile_allocated, hk_profile_lost;

/* hk_profile_clear() forgets all blocks and zeroes all sums. hk_profile_forked() is for a fork's
 * child, and makes the next sample do that. */
void hk_profile_clear(void);
void hk_profile_forked(void);

/* Adds a sampled block of n bytes, which stands for 1 / chance blocks. With `waits` it waits for
 * the lock; a thread that may have been interrupted while holding it must pass false. */
void hk_profile_add(const void *p, size_t n, double chance, void *const *frames, unsigned count,
                    bool waits);

/* A block in use; the chance that a block of its size is sampled. */
typedef struct {
    uintptr_t p; /* 0: none */
    size_t n;
    double chance;
    hk_profile_stack_t *stack; /* in a copy, NULL: no sample, or reached */
} hk_profile_block_t;

/* Removes a block that is freed. Returns its bytes; 0: it is not known. *was receives it, unless
 * NULL; if the free does not happen (a failed realloc) it is put back, which does not count as an
 * allocation. */
size_t hk_profile_remove(const void *p, bool waits, hk_profile_block_t *was);
void hk_profile_put_back(const hk_profile_block_t *was, bool waits);

/* Nothing changes between freeze, which counts the blocks, and thaw. False: the lock could not be
 * taken, as when this thread was interrupted while it held it. In between, hk_profile_blocks()
 * copies the blocks, and the table's own memory as a block without a stack. hk_profile_reached()
 * sums up the unreached ones. */
bool hk_profile_freeze(size_t *count);
size_t hk_profile_blocks(hk_profile_block_t *to);
void hk_profile_thaw(void);
void hk_profile_reached(const hk_profile_block_t *blocks, size_t count);

/* How many sampled blocks share the middle address bits of p: nearly always 0. A count that reaches
 * 255 stays. NULL until the first sample. atomic: written under the lock, any thread reads. */
enum { HK_PROFILE_LIKES = 1 << 17 };
extern _Atomic(_Atomic uint8_t *) hk_profile_likes;
HK_INLINE size_t hk_profile_like(const void *p) {
    return ((uintptr_t)p >> 4 ^ (uintptr_t)p >> 21) % HK_PROFILE_LIKES;
}
