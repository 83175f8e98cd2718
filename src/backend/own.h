/* The allocator's own memory: the one place that knows all of it. What lies there is neither a block
 * nor another allocator's memory. No lock: also in a signal handler. */
#pragma once

#include "base/base.h"

/* Notes a table that lies neither in the metadata nor in the page map; NULL: none. Forgets it,
 * before it is unmapped. Of very many tables some find no place and are not known. */
void hk_own_add(const void *start, size_t bytes);
void hk_own_drop(const void *start);

/* Whether [from, end) meets memory of the allocator's own: metadata, the page map, noted tables, or
 * the hoard. (Blocks, and memory that is kept for them, have a kind in the page map.) */
bool hk_own_meets(const void *from, const void *end);
