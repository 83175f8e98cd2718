/* Fenced blocks: each is a mapping of its own, its last byte as near as its alignment allows before a
 * page that nobody can read or write; before it, at some distance, lies another one. What becomes of a freed one:
 * guard/freed.h. No lock is taken.
 *
 *   | fence, 1 to 8 pages | body ........... block | tail | fence |
 *
 * Blocks of no bytes are of guard/nothing.h. */
#pragma once

#include "guard/guard.h"

/* n bytes aligned to `align`, a power of two, that read as zero; n may be 0. NULL: out of memory, or of
 * mappings; what freed ones had of both has been let go of for a block without fences. One that grows
 * gets addresses to grow into. Any thread, any time. */
void *hk_fence_alloc(size_t n, size_t align, bool grows, hk_by_t by);

/* Frees a block of kind HK_KIND_FENCED, a sampled one too; a fault where there is none at p. */
void hk_fence_free(void *p, hk_by_t by, size_t n);

/* The bytes that were asked for. */
size_t hk_fence_bytes(const void *p);

/* What lies around p, any address of that kind. */
hk_around_t hk_fence_around(const void *p);

/* The block has n bytes now; false: there is no room, with `half` it would be less than half, or a sample is to grow. One that
 * has grown where it is ends up to a page before its fence. */
bool hk_fence_resize(void *p, size_t n, bool half);

/* Says what an access at p did, if it is on a fence or in what was freed; false: it is not. In a signal handler. */
bool hk_fence_report(const void *p);

/* Looks at all that are in use, and at what of those that are free can be written to. No other thread allocates. */
void hk_fence_finish(void);
