/* All that is free goes back, as by malloc_trim(), but that the magazines stay as they are. */
#ifndef UNIT_PURGE_ALL_H
#define UNIT_PURGE_ALL_H

#include "backend/purge.h"

/* Asked so many times more it says no. */
static inline bool goes_on(void *left) { return left == NULL || (*(unsigned *)left)-- != 0; }

static inline size_t purge_all(void) { return hk_purge_all(goes_on, NULL); }

#endif
