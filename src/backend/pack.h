/* Packs: units cut into grains of 1 KiB, for blocks of whole grains that share slices. They serve
 * blocks above 32 KiB where memory is bounded (backend/region.h) and a slice for each remainder is
 * too much. A pack costs a search and a lock that all threads share, so nobody else uses them. */
#pragma once

#include "base/base.h"

enum { HK_GRAIN = 1024, HK_PACK_MOST = 512 * 1024, HK_PACK_ALIGN = HK_SLICE };

/* n bytes, 0 < n <= HK_PACK_MOST, aligned to a grain and to `align`, a power of two <= HK_PACK_ALIGN; may hold old data.
 * NULL: out of memory. */
void *hk_pack_alloc(size_t n, size_t align);

/* Frees a block of kind HK_KIND_PACKED; aborts unless p is its start. Returns its bytes. */
size_t hk_pack_free(void *p);

/* The same for somebody who may take no lock: hk_pack_free_late() does what is left to do, and
 * returns the bytes. */
void hk_pack_put_aside(void *p);
size_t hk_pack_free_late(void);

/* Bytes that may be used at p. */
size_t hk_pack_usable(const void *p);

/* Changes the size to n, 0 < n <= HK_PACK_MOST, where the block is; false: what lies behind it is
 * taken. */
bool hk_pack_resize(void *p, size_t n);

typedef struct {
    size_t packs, blocks, bytes;
} hk_pack_stats_t;
hk_pack_stats_t hk_pack_stats(void);
