/* The allocator's own memory: descriptors and thread records. It is handed out, never taken back:
 * what lives here is type-stable, which the remote-free protocol depends on. */
#ifndef HK_BACKEND_META_H
#define HK_BACKEND_META_H

#include "base/base.h"

/* Zeroed memory aligned to a cache line, for ever; NULL when the system refuses. Any thread. */
void *hk_meta_alloc(size_t bytes);

/* From now on what is handed out lies between inaccessible pages. Called once. */
void hk_meta_fence(void);

/* Bytes mapped for metadata so far. */
size_t hk_meta_mapped(void);

/* Calls `visit` for each range mapped for metadata; nothing is locked then. */
void hk_meta_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument);

#endif
