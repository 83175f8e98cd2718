/* What a heap profile knows: the sampled blocks that are in use, by address, and the stacks that they were allocated
 * by, with sums. Blocks have a lock of their own rank, which is not held while a stack is read; stacks are
 * never freed, so that who writes a profile reads them without it. */
#pragma once

#include "base/base.h"

/* As they were sampled, and as many as they stand for: in 65536ths, and in bytes. */
typedef struct {
    _Atomic uint64_t objects, bytes; /* atomic: written under the lock, any thread reads */
    _Atomic uint64_t all_objects, all_bytes;
} hk_profile_sums_t;
enum { HK_PROFILE_OBJECT = 65536 };
HK_INLINE uint64_t hk_profile_objects(const hk_profile_sums_t *sums) {
    return (hk_load_relaxed(&sums->all_objects) + HK_PROFILE_OBJECT / 2) / HK_PROFILE_OBJECT;
}

typedef struct hk_profile_stack {
    struct hk_profile_stack *before, *same_bucket; /* const: made before this one */
    hk_profile_sums_t in_use, allocated;
    hk_profile_sums_t unreached; /* since somebody looked (profile/reach.h) */
    uint32_t hash, count;        /* const */
    void *frames[];              /* const: return addresses, the innermost first */
} hk_profile_stack_t;

/* The stack made last, from which `before` leads to the others; many may have nothing any more. NULL: there is none, or it
 * is not known (hk_profile_freeze). */
hk_profile_stack_t *hk_profile_stacks(void);

/* Of the process: all bytes of the sums, and samples for which there was no room. atomic: as those. */
extern _Atomic uint64_t hk_profile_in_use, hk_profile_allocated, hk_profile_lost;

/* Forgets all blocks, and sets all sums to zero. In a fork's child, whoever watches now: at the next sample. */
void hk_profile_clear(void);
void hk_profile_forked(void);

/* A block of n bytes is sampled, where one of its size stands for 1 / chance. `waits`: for the lock, however
 * long; a thread that may have been interrupted while it had it must not. */
void hk_profile_add(const void *p, size_t n, double chance, void *const *frames, unsigned count,
                    bool waits);

/* A block in use; the chance that its size is sampled with. */
typedef struct {
    uintptr_t p; /* 0: none */
    size_t n;
    double chance;
    hk_profile_stack_t *stack; /* of a copy NULL: nobody's, or reached */
} hk_profile_block_t;

/* A block is freed. Returns its bytes; 0: it is none. Unless `was` is NULL that says what it was; where it is not freed after all it
 * is put back, and has not been allocated again. */
size_t hk_profile_remove(const void *p, bool waits, hk_profile_block_t *was);
void hk_profile_put_back(const hk_profile_block_t *was, bool waits);

/* Nothing changes between freeze, which says how many blocks there are, and thaw. False: the thread was interrupted while it
 * changes something. In between: copies them, the table's own memory as a block of
 * nobody's as well; and sums up those that are not reached. */
bool hk_profile_freeze(size_t *count);
size_t hk_profile_blocks(hk_profile_block_t *to);
void hk_profile_thaw(void);
void hk_profile_reached(const hk_profile_block_t *blocks, size_t count);

/* How many sampled blocks have an address like p's, by its middle bits: nearly always 0. What is 255 once stays so.
 * NULL until something is sampled. atomic: written under the lock, any thread reads. */
enum { HK_PROFILE_LIKES = 1 << 17 };
extern _Atomic(_Atomic uint8_t *) hk_profile_likes;
HK_INLINE size_t hk_profile_like(const void *p) {
    return ((uintptr_t)p >> 4 ^ (uintptr_t)p >> 21) % HK_PROFILE_LIKES;
}
