/* Packs: units cut into grains of 1 KiB, for blocks of whole grains that share slices. They serve blocks above 32 KiB where
 * memory is bounded (backend/region.h) and a slice for each remainder is too much, and the few blocks of any size that have to be of
 * another kind than their neighbours (front/watched.h). A pack costs a search and a lock that all threads share, so nobody else
 * uses them. */
#pragma once

#include "base/base.h"
#include "os/os.h"

enum { HK_GRAIN = 1024, HK_PACK_MOST = 512 * 1024, HK_PACK_ALIGN = HK_SLICE };

/* n bytes, 0 < n <= HK_PACK_MOST, aligned to a grain and to `align`, a power of two <= HK_PACK_ALIGN; may hold old data.
 * NULL: out of memory. */
void *hk_pack_alloc(size_t n, size_t align);

/* Frees a block of kind HK_KIND_PACKED, or what was claimed and has been purged or not; aborts unless p is its start. Returns
 * its bytes. */
size_t hk_pack_give(void *p, bool purged);
HK_INLINE size_t hk_pack_free(void *p) { return hk_pack_give(p, false); }

/* The same for somebody who may take no lock: hk_pack_free_late() does what is left to do, and
 * returns the bytes. */
void hk_pack_put_aside(void *p);
size_t hk_pack_free_late(void);

/* Bytes that may be used at p. */
size_t hk_pack_usable(const void *p);

/* Changes the size to n, 0 < n <= HK_PACK_MOST, where the block is; false: what lies behind it is
 * taken. */
bool hk_pack_resize(void *p, size_t n);

enum { HK_PACK_CLAIM_FROM = HK_SLICE };
typedef struct {
    hk_os_range_t ranges[HK_UNIT / HK_PACK_CLAIM_FROM];
    unsigned count;
    size_t dirty; /* so many bytes of them may have memory */
} hk_pack_claim_t;

/* For purging, see backend/purge.h: of the next pack behind *at (NULL: the first one) that has runs of OS pages which are
 * free and have memory, claims these as blocks, for hk_pack_give() to put back; of some packs, none may have any. False: there are
 * no more. `aged`: not of one that a block has left since this was asked last; *seen is set then. */
bool hk_pack_claim(void **at, bool aged, bool *seen, hk_pack_claim_t *claim);

/* `dirty`: bytes of no block that may have memory. */
typedef struct {
    size_t packs, blocks, bytes, dirty;
} hk_pack_stats_t;
hk_pack_stats_t hk_pack_stats(void);
