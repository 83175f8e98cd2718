/* One thread replaces the blocks of random slots and writes to what it gets: bench_large,
 * bench_huge. */
#ifndef HB_REPLACE_H
#define HB_REPLACE_H

#include "measure.h"

typedef enum {
    TOUCH_NONE, /* the first byte only */
    TOUCH_PAGE, /* one byte in each 4 KiB */
    TOUCH_ENDS, /* the first and the last byte of each 4 KiB */
    TOUCH_ALL,  /* every byte */
} touch_t;

#define TOUCH_WORDS "none|page|ends|all"

/* Fills `slots` slots untimed, then replaces `ops` blocks of min to max bytes. */
hb_usage_t hb_replace_run(uint64_t ops, uint64_t slots, size_t min, size_t max, touch_t touch,
                          uint64_t seed);

#endif
