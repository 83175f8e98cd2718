/* The one emitter: statistics as text for people, JSON for programs, OpenMetrics for monitoring. */
#pragma once

#include "base/base.h"
#include "hakmem/hakmem.h"
#include "stats/sections.h"

/* "C0" ... "C7", "mid", "large", "huge". */
extern const char hk_band_names[HAK_STATS_BANDS][6];

/* All figures that a report contains. */
typedef struct {
    hak_stats_t stats;
    hk_sections_sum_t sections;
} hk_figures_t;

/* Parses "text", "json" or "openmetrics", a word of `len` bytes; false: it is none of them. */
bool hk_emit_format(const char *word, size_t len, hak_stats_format_t *format);

/* Writes *figures to fd. Returns 0 or write(2)'s error. Allocates nothing; keeps errno. */
int hk_emit_stats(int fd, hak_stats_format_t format, const hk_figures_t *figures);

/* Writes the line "[SS_OS_STATS] alloc=..." to fd. `disabled`: hakmem has given up advising. */
void hk_emit_os_line(int fd, bool disabled);
