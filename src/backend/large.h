/* Blocks above 32 KiB: runs of slices in a superslab up to 2 MiB ("large"), address ranges of their
 * own above ("huge"). While memory is bounded (backend/region.h) neither rounds up that far: blocks
 * up to 512 KiB share slices ("packed"), and larger ones take whole slices. Any thread may free or
 * resize any of them. */
#pragma once

#include "backend/heap.h"
#include "backend/pagemap.h"
#include "base/base.h"

/* No block and no alignment is larger: no address space is. */
#define HK_MOST_BYTES ((size_t)1 << 48)

/* Huge blocks that take less ask for no huge pages. */
#define HK_HUGE_PAGES_FROM (4 * HK_MIB)

/* `heap` is the calling thread's own: its stash is tried first (backend/stash.h). */

/* Allocates n bytes (any n that is no class's) aligned to `align`, a power of two. *dirty receives
 * how many bytes from the start may hold old data; the rest reads as zero. NULL: out of memory. */
void *hk_large_alloc(hk_heap_t *heap, size_t n, size_t align, size_t *dirty);

/* The kinds of the blocks that this box serves. */
HK_INLINE bool hk_large_is(unsigned kind) {
    return kind == HK_KIND_LARGE || kind == HK_KIND_HUGE || kind == HK_KIND_PACKED;
}

/* Frees a block of such a kind; aborts unless p is its start. Returns the bytes to report as
 * free. */
size_t hk_large_free(hk_heap_t *heap, void *p, unsigned kind);

/* Lock-free variant for any thread at any time: puts the block aside, which counts as free from
 * then on. hk_large_free_late() frees what was put aside and returns its bytes; hk_large_aside says
 * whether there may be any. */
void hk_large_put_aside(void *p, unsigned kind);
size_t hk_large_free_late(void);
extern atomic_bool hk_large_aside;

/* Bytes the caller may use. */
size_t hk_large_usable(const void *p, unsigned kind);

/* Changes the size to n > HK_MID_MAX, in place or by moving pages. NULL: only a copy can do it;
 * nothing has changed then, except that a huge block may have given back what n does not need. */
void *hk_large_resize(hk_heap_t *heap, void *p, unsigned kind, size_t n);

/* How many huge blocks there are. Any thread. */
size_t hk_large_huge_blocks(void);
