/* For tests with heaps of their own, which belong to no thread: taking blocks, and checking each
 * slab's equation. */
#pragma once

#include "backend/heap.h"
#include "check.h"

enum { BATCH = 64, MOST = 2 * HK_SLAB_MAX_BLOCKS };

static inline unsigned bits_of(uint64_t word) { return (unsigned)__builtin_popcountll(word); }

/* free + remote + held by the test (magazines and blocks in use) == blocks. */
static inline void check_slab(const hk_slab_t *slab, unsigned held) {
    const hk_class_t *c = &hk_classes[slab->cls];
    unsigned free = 0, remote = 0;
    for (unsigned w = 0; w < HK_BITMAP_WORDS && w < (c->blocks + 63u) / 64; w++) {
        free += bits_of(slab->bits[w]);
        remote += bits_of(hk_load_relaxed(&hk_remote_bits(slab, c)[w]));
        CHECK_EQ(slab->summary >> w & 1, slab->bits[w] != 0);
    }
    CHECK_EQ(hk_load_relaxed(&slab->free), free);
    CHECK_EQ(free + remote + held, c->blocks);
    /* a slab is listed exactly while it has free blocks; with remote bits it is always pending */
    CHECK_EQ(slab->listed, free != 0);
    CHECK(remote == 0 || hk_load_relaxed(&hk_remote_of(slab)->pending) == 1);
}

/* Takes exactly n blocks in batches; fails unless a batch's addresses descend within
 * each slab. */
static inline void take(hk_heap_t *heap, unsigned cls, void **out, unsigned n) {
    for (unsigned have = 0; have < n;) {
        unsigned want = (unsigned)hk_min(BATCH, n - have);
        unsigned got = hk_heap_take(heap, cls, out + have, want);
        CHECK(got >= 1 && got <= want);
        for (unsigned i = have + 1; i < have + got; i++)
            CHECK(hk_slab_of(out[i]) != hk_slab_of(out[i - 1]) || out[i] < out[i - 1]);
        have += got;
    }
}
