/* How much of huge blocks is written to: many a program asks for more than it fills, and pages that lie where a block has no use
 * for them are memory that nobody else can have. Blocks are told apart by what they take. Any thread, no lock; of two notes at
 * once one may be lost. All bytes are multiples of a unit. */
#pragma once

#include "base/base.h"

/* A block that takes so many bytes has been asked for. */
void hk_written_asked(size_t bytes);

/* What of such a block will probably be written to: its first so many. All of it as long as nobody knows; or where one range will do
 * as well as another, since hardly anything is written to, or the latest blocks have all been asked for as much. */
size_t hk_written_usually(size_t bytes);

/* What of a freed block lies before the place from which on nobody has written to it, by a few pages. What lies behind its
 * first `clean` bytes, less than all, had no memory when it was taken; of those before nobody knows. */
size_t hk_written_of(const char *start, size_t bytes, size_t clean);
