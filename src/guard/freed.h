/* Fenced blocks that are free. Each waits until chance drives it out, inaccessible, or only cleared where that is done all
 * the time; the smaller ones keep their memory and may then be had again, the others go. No lock is taken. */
#pragma once

#include "guard/header.h"

/* A block in use has so many bytes now instead of so many: who has more in use keeps more. */
void hk_freed_note(size_t now, size_t before);

/* One with such a body, or a little larger, in such a mapping or a larger one. It can be written to, reads as zero and is held; what it has besides
 * is the caller's to say and to seal. NULL: there is none. */
hk_header_t *hk_freed_take(size_t body_bytes, size_t bytes);

/* The block that was there, and was held, is free; without `may_wait` it goes at once. What keeps its memory is held as before. */
void hk_freed_give(hk_header_t *header, bool may_wait);

/* Of one that is open: has somebody written to it? */
void hk_freed_look(const hk_header_t *header);

/* Whether any keeps its memory. */
bool hk_freed_any(void);

/* Lets go of all of them. */
void hk_freed_trim(void);
