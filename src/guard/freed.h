/* Fenced blocks that are free. Each waits until a later one, at random, takes its place. Its body
 * is inaccessible meanwhile or, where blocks are freed too often for that, only cleared. Smaller
 * ones keep their memory and can be reused after the wait; the others are unmapped. No lock is
 * taken. */
#pragma once

#include "guard/header.h"

/* A block in use has `now` bytes instead of `before` (0: not in use). The more bytes are in use,
 * the more may be kept. */
void hk_freed_note(size_t now, size_t before);

/* A freed block with a body of body_bytes or slightly more, in a mapping of `bytes` or more. The
 * body is writable and reads as zero, and the mapping counts as held; the caller fills in the rest
 * of the header and seals it. NULL: there is none. */
hk_header_t *hk_freed_take(size_t body_bytes, size_t bytes);

/* The block is free; its mapping counts as held. Without `may_wait` it is unmapped at once. If it
 * keeps its memory, it stays held. */
void hk_freed_give(hk_header_t *header, bool may_wait);

/* Reports a fault if an open one was written to. */
void hk_freed_look(const hk_header_t *header);

/* Whether any of them keeps its memory. */
bool hk_freed_any(void);

/* Gives all of them back to the system. */
void hk_freed_trim(void);
