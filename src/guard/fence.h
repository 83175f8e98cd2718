/* Fenced blocks: each is a mapping of its own. It ends as near before an inaccessible page as its
 * alignment allows; another inaccessible page lies some way before it. For freed ones see
 * guard/freed.h. No lock is taken.
 *
 *   | fence, 1 to 8 pages | body ........... block | tail | fence |
 *
 * Blocks of no bytes belong to guard/nothing.h. */
#pragma once

#include "guard/guard.h"

/* n bytes aligned to `align`, a power of two, that read as zero; n may be 0. A block that `grows`
 * gets addresses to grow into. NULL: out of memory or of mappings. If that can help, freed blocks
 * have given theirs up by then, so that the caller may get a block without fences. Any thread, any
 * time. */
void *hk_fence_alloc(size_t n, size_t align, bool grows, hk_by_t by);

/* Frees a block of kind HK_KIND_FENCED, which may be a sample; reports a fault if no block starts
 * at p. */
void hk_fence_free(void *p, hk_by_t by, size_t n);

/* The bytes that were asked for. */
size_t hk_fence_bytes(const void *p);

/* The block around p, any address of that kind. */
hk_around_t hk_fence_around(const void *p);

/* Resizes the block to n bytes in place. False: there is no room; or with `half`, n is less than
 * half of its bytes; or a sample would have to grow. A block that has grown may end up to a page
 * before its fence. */
bool hk_fence_resize(void *p, size_t n, bool half);

/* Reports the access at p if it hit a fence or a freed block; false: it did not. In a signal
 * handler. */
bool hk_fence_report(const void *p);

/* Checks all blocks in use, and free ones that are open. No other thread may allocate meanwhile. */
void hk_fence_finish(void);
