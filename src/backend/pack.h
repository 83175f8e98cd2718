/* Packs: units cut into grains of 1 KiB, for blocks of whole grains that share slices. They serve
 * blocks above 32 KiB while memory is bounded (backend/region.h), where a slice for each remainder
 * is too much, and the few blocks of any size that need another kind than their neighbours
 * (front/watched.h). No other blocks: a pack costs a search, and a lock that all threads share. */
#pragma once

#include "base/base.h"
#include "os/os.h"

enum { HK_GRAIN = 1024, HK_PACK_MOST = 512 * 1024, HK_PACK_ALIGN = HK_SLICE };

/* Allocates n bytes, 0 < n <= HK_PACK_MOST, aligned to a grain and to `align`, a power of two <=
 * HK_PACK_ALIGN. They may hold old data. NULL: out of memory. */
void *hk_pack_alloc(size_t n, size_t align);

/* Frees a block of kind HK_KIND_PACKED, or puts a claimed run back, whether it was purged or not;
 * aborts unless p is its start. Returns its bytes. */
size_t hk_pack_give(void *p, bool purged);
HK_INLINE size_t hk_pack_free(void *p) { return hk_pack_give(p, false); }

/* Lock-free variant for any thread at any time: marks the block as free. hk_pack_free_late() frees
 * all such blocks, and returns their bytes. */
void hk_pack_put_aside(void *p);
size_t hk_pack_free_late(void);

/* Bytes that may be used at p. */
size_t hk_pack_usable(const void *p);

/* Changes the size to n, 0 < n <= HK_PACK_MOST, in place; false: what lies behind the block is in
 * use. */
bool hk_pack_resize(void *p, size_t n);

enum { HK_PACK_CLAIM_FROM = HK_SLICE };
typedef struct {
    hk_os_range_t ranges[HK_UNIT / HK_PACK_CLAIM_FROM];
    unsigned count;
    size_t dirty; /* upper bound on the bytes of these ranges that have memory */
} hk_pack_claim_t;

/* For a purge (backend/purge.h): moves *at on to the next pack (from NULL to the first) that may
 * have free OS pages with memory, and claims runs of these as blocks, for hk_pack_give() to put
 * back. It may stop at a pack without any. False: there are no more packs. `aged`: claims nothing
 * of a pack that a block has left since the last call, but sets *seen. */
bool hk_pack_claim(void **at, bool aged, bool *seen, hk_pack_claim_t *claim);

/* `dirty`: free bytes that may have memory. */
typedef struct {
    size_t packs, blocks, bytes, dirty;
} hk_pack_stats_t;
hk_pack_stats_t hk_pack_stats(void);
