/* The hoard: memory of freed fenced blocks, moved away from their addresses. These wait,
 * inaccessible and without memory (guard/freed.h), while the memory serves the next blocks,
 * whatever their sizes. It lies, inaccessible, where the system puts it. Lock-free. */
#pragma once

#include "base/base.h"

/* The least bytes of a block that gives its memory or gets some. */
#define HK_HOARD_FROM (512 * HK_KIB)

/* Takes the memory of inaccessible pages; they stay inaccessible, and read as zero from then on.
 * False: the system refused, and nothing has changed. */
bool hk_hoard_take_in(void *body, size_t bytes);

/* Puts memory of the hoard, as far as there is some, behind inaccessible pages that have none: the
 * first *dirty bytes hold old data, the others are zero. False: the system refused, and the pages
 * may be unmapped. */
bool hk_hoard_hand_out(void *body, size_t bytes, size_t *dirty);

/* Notes that `written` of the `dirty` bytes handed out had been written to. Where hardly any are,
 * the hoard does not pay: each block has to look at all its pages, and the system would bring in
 * few. */
void hk_hoard_learn(size_t dirty, size_t written);
bool hk_hoard_pays(void);

/* Bytes in the hoard. They are held, and kept (backend/limit.h). */
size_t hk_hoard_bytes(void);

/* Calls `visit` for each piece; by then it may be gone. */
void hk_hoard_visit(void (*visit)(const void *start, size_t bytes, void *argument), void *argument);

/* Unmaps the smallest piece; false: there is none. */
bool hk_hoard_let_go(void);

/* Unmaps all pieces. */
void hk_hoard_trim(void);
