/* Blocks of no bytes under the guard: addresses 16 bytes apart on one range of inaccessible pages,
 * made when the first is asked for. No lock is taken. Any thread, any time. */
#pragma once

#include "base/base.h"

enum { HK_NOTHINGS = 65536, HK_NOTHING_BYTES = 16 };

/* The first free block at or after number `from`, which the caller draws at random, 0 <= from <
 * HK_NOTHINGS; NULL: none is free. */
void *hk_nothing_take(uint32_t from);

/* Whether p lies on that range. The functions below take only such addresses. */
bool hk_nothing_has(const void *p);

/* Whether p is a block in use; whether it is or ever was one. */
bool hk_nothing_is_out(const void *p);
bool hk_nothing_was_out(const void *p);

/* Frees it; reports a fault if it is no block, or free. */
void hk_nothing_give(void *p);
