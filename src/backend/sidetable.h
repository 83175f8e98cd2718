/* A record for each slice of the address space, apart from what lies there: the headers of fenced blocks (guard/header.h). Those
 * of 4 GiB of addresses are a table, which can be read all over, and written to around where a record was made. None goes
 * back. What can be written to is the allocator's own memory, and counts as that (backend/meta.h). No lock is taken. */
#pragma once

#include "base/base.h"

enum { HK_SIDE_BYTES = 72 };

/* The record of the slice that p lies in, zeroed at first; NULL: none was made of those 4 GiB. */
void *hk_side_at(const void *p);

/* The same where it may be written to; NULL: refused. */
void *hk_side_make(const void *p);

/* Calls `visit` for each range that may be written to. In a signal handler, too. */
void hk_side_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument);
