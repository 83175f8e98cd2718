/* How much of huge blocks is written to. Many programs ask for more than they fill; cached pages
 * behind that part would be memory that no other block can have. Blocks are told apart by their
 * size. Any thread, no lock; of two notes at once one may be lost. All bytes are multiples of a
 * unit. */
#pragma once

#include "base/base.h"

/* A block of `bytes` was asked for. */
void hk_written_asked(size_t bytes);

/* How many of the first bytes of such a block will probably be written to. All of it if that is
 * unknown; or if any range will do, since hardly anything is written to, or the latest requests
 * were all for this size. */
size_t hk_written_usually(size_t bytes);

/* How many of a freed block's first bytes may have been written to, by a look at a few pages.
 * Behind its first `clean` bytes, less than all, it had no memory when it was taken; nothing is
 * known about those before. */
size_t hk_written_of(const char *start, size_t bytes, size_t clean);
