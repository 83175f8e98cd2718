/* The one emitter: statistics as text for people, JSON for programs, OpenMetrics for monitoring. */
#pragma once

#include "base/base.h"
#include "hakmem/hakmem.h"
#include "stats/sections.h"

/* "C0" ... "C7", "mid", "large", "huge". */
extern const char hk_band_names[HAK_STATS_BANDS][6];

/* All that is written. */
typedef struct {
    hak_stats_t stats;
    hk_sections_sum_t sections;
} hk_figures_t;

/* The format that the word of so many bytes names, "text", "json" or "openmetrics"; false: none. */
bool hk_emit_format(const char *word, size_t len, hak_stats_format_t *format);

/* Writes *figures to fd; 0, or errno as write(2) left it. Allocates nothing; keeps errno. */
int hk_emit_stats(int fd, hak_stats_format_t format, const hk_figures_t *figures);

/* Writes the one line "[SS_OS_STATS] alloc=..." to fd. `disabled`: advice has been given up. */
void hk_emit_os_line(int fd, bool disabled);
