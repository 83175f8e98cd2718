/* The statistics of the process, for everybody who reports them. */
#pragma once

#include <stdbool.h>

#include "stats/emit.h"

/* Fills all of *stats from the allocator's own records; with `measure` also what only the system
 * knows (resident, lazy, dirty, retained, peak_resident), which are 0 otherwise. False in a signal
 * handler that interrupted the allocator: nothing can be counted then. Allocates nothing. */
bool hk_stats_collect(hak_stats_t *stats, bool measure);

/* The same, all measured, and the sections: what is written. */
bool hk_figures_collect(hk_figures_t *figures);

/* As hak_stats_print, for our own. */
int hk_stats_print(int fd, hak_stats_format_t format);
