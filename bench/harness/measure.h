/*
 * The clock, the kernel's account of the process, and the result lines every benchmark prints.
 * Nothing here allocates on the heap.
 */
#ifndef HB_MEASURE_H
#define HB_MEASURE_H

#include <stdint.h>

#include "options.h"

/* A reading since some origin, or the difference of two readings. */
typedef struct {
    double wall_s;
    double user_s;
    double sys_s;
    uint64_t minflt;
    uint64_t majflt;
} hb_usage_t;

/* Seconds on the monotonic clock. */
double hb_wall_now(void);

/* This process, all threads. */
hb_usage_t hb_usage_now(void);

/* This process and the children it has waited for. */
hb_usage_t hb_usage_now_with_children(void);

hb_usage_t hb_usage_between(const hb_usage_t *from, const hb_usage_t *to);

/* Adds `part` to `sum`. */
void hb_usage_add(hb_usage_t *sum, const hb_usage_t *part);

/*
 * Prints the classic line and the JSON line on stdout, the peak RSS on stderr, and a warning when
 * the timed part was too short to be a sample. `extra` is more JSON members ("\"a\":1"), or NULL.
 */
void hb_report(const hb_program_t *program, uint64_t ops, const hb_usage_t *usage,
               const char *extra);

#endif
