/* The statistics of the process, for all that report them. */
#pragma once

#include <stdbool.h>

#include "stats/emit.h"

/* Fills *stats from the allocator's own records. With `measure` it also asks the system for
 * resident, lazy, dirty, retained and peak_resident, which are 0 otherwise. False, and nothing is
 * counted: in a signal handler that interrupted the allocator, or while another thread's fork takes
 * more than a second. Allocates nothing. */
bool hk_stats_collect(hak_stats_t *stats, bool measure);

/* The same with `measure`, and the sections: the figures of every report. */
bool hk_figures_collect(hk_figures_t *figures);

/* hak_stats_print() for callers inside hakmem. */
int hk_stats_print(int fd, hak_stats_format_t format);
