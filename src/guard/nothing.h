/* Blocks of no bytes under the guard: addresses 16 bytes apart on one range of pages that nobody can read or write, made when
 * the first is asked for. No lock is taken. Any thread, any time. */
#pragma once

#include "base/base.h"

enum { HK_NOTHINGS = 65536, HK_NOTHING_BYTES = 16 };

/* The first that is free from a place of chance on, 0 <= from < HK_NOTHINGS; NULL: there is none. */
void *hk_nothing_take(uint32_t from);

/* Whether p lies on that range. What follows is of such addresses only. */
bool hk_nothing_has(const void *p);

/* Whether p is one that is in use; and whether it is one that is, or was. */
bool hk_nothing_is_out(const void *p);
bool hk_nothing_was_out(const void *p);

/* Takes it back; a fault where it is none, or free. */
void hk_nothing_give(void *p);
