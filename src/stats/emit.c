#include "stats/emit.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/ticks.h"
#include "stats/counters.h"

const char hk_band_names[HAK_STATS_BANDS][6] = {"C0", "C1", "C2",  "C3",    "C4",  "C5",
                                                "C6", "C7", "mid", "large", "huge"};

/* A figure of hak_stats_t, of hak_stats_band_t, of the sections or of one of them. The texts are in the row
 * itself: pointers to them would have to be relocated at each start of a process. */
typedef struct {
    char name[24], unit[16], doc[104];
    bool counter;
    size_t offset;
} row_t;

enum { COUNTS_SUM = true, COUNTS_MOST = false };

static const row_t heap_rows[] = {
#define HK_BAND(name, unit, doc)
#define HK_GAUGE(name, unit, doc) {#name, unit, doc, false, offsetof(hak_stats_t, name)},
#define HK_COUNTER(name, unit, doc) {#name, unit, doc, true, offsetof(hak_stats_t, name)},
#define HK_HEAP_COUNTER HK_COUNTER
#include "stats/fields.def"
#undef HK_BAND
#undef HK_GAUGE
#undef HK_COUNTER
#undef HK_HEAP_COUNTER
};

static const row_t band_rows[] = {
#define HK_BAND(name, unit, doc) {#name, unit, doc, false, offsetof(hak_stats_band_t, name)},
#define HK_GAUGE(name, unit, doc)
#define HK_COUNTER(name, unit, doc)
#define HK_HEAP_COUNTER(name, unit, doc)
#include "stats/fields.def"
#undef HK_BAND
#undef HK_GAUGE
#undef HK_COUNTER
#undef HK_HEAP_COUNTER
};

static const row_t sampling_rows[] = {
    {"sample", "entries", "every so many entries of a section one is timed; 0: none", false,
     offsetof(hk_sections_sum_t, sample)},
    {"overhead", "cycles", "what an empty section is timed with at the least", false,
     offsetof(hk_sections_sum_t, overhead)},
};

static const row_t timing_rows[] = {
#define HK_SECTION(name, doc)
#define HK_TIMING(name, over, unit, doc)                                                           \
    {#name, unit, doc, COUNTS_##over, offsetof(hk_section_sum_t, name)},
#include "stats/sections.def"
#undef HK_SECTION
#undef HK_TIMING
};

static const struct {
    char name[24], doc[144];
} section_rows[] = {
#define HK_SECTION(name, doc) {#name, doc},
#define HK_TIMING(name, over, unit, doc)
#include "stats/sections.def"
#undef HK_SECTION
#undef HK_TIMING
};

enum {
    SAMPLING_ROWS = sizeof sampling_rows / sizeof sampling_rows[0],
    TIMING_ROWS = sizeof timing_rows / sizeof timing_rows[0],
    HEAP_ROWS = sizeof heap_rows / sizeof heap_rows[0],
    BAND_ROWS = sizeof band_rows / sizeof band_rows[0],
};
/* Each row names a field, and there is one for each field. */
_Static_assert(sizeof(hak_stats_band_t) == BAND_ROWS * sizeof(uint64_t), "band without row");
_Static_assert(sizeof(hak_stats_t) ==
                   offsetof(hak_stats_t, allocated) + HEAP_ROWS * sizeof(uint64_t),
               "figure without row");

static uint64_t value_of(const void *figures, const row_t *row) {
    uint64_t value;
    memcpy(&value, (const char *)figures + row->offset, sizeof value);
    return value;
}

/* ---- writing ---- */

/* Each piece is shorter than this; a line is emptied before one might not fit. */
enum { LONGEST_PIECE = 256 };

typedef struct {
    int fd;
    int error; /* the first one; nothing is written after it */
    hk_line_t line;
} output_t;

static void flush(output_t *out) {
    for (size_t at = 0; at < out->line.len && out->error == 0;) {
        ssize_t n = HK_CALL(other, write(out->fd, out->line.text + at, out->line.len - at));
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            out->error = n == 0 ? EIO : errno;
    }
    out->line.len = 0;
}

static HK_COLD void put(output_t *out, const char *s) {
    hk_assert(strlen(s) < LONGEST_PIECE);
    if (out->line.len > sizeof out->line.text - LONGEST_PIECE)
        flush(out);
    hk_line_str(&out->line, s);
}

static void put_all(output_t *out, const char *const *pieces, size_t n) {
    for (size_t i = 0; i < n; i++)
        put(out, pieces[i]);
}
#define PUT(out, ...)                                                                              \
    put_all(out, (const char *const[]){__VA_ARGS__},                                               \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Decimal, right-aligned to at least `width`, filled with `fill`. */
static HK_COLD void put_number(output_t *out, uint64_t value, unsigned width, char fill) {
    char text[32];
    size_t at = sizeof text - 1;
    text[at] = '\0';
    do
        text[--at] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (sizeof text - 1 - at < width)
        text[--at] = fill;
    put(out, text + at);
}

static void put_left(output_t *out, const char *s, size_t width) {
    put(out, s);
    for (size_t len = strlen(s); len < width; len++)
        put(out, " ");
}

static void put_right(output_t *out, const char *s, size_t width) {
    for (size_t len = strlen(s); len < width; len++)
        put(out, " ");
    put(out, s);
}

/* ---- text ---- */

/* Whether there is anything to say about sections. */
static bool has_sections(const hk_sections_sum_t *sections) { return sections->overhead != 0; }

static void text_of_row(output_t *out, const void *figures, const row_t *row, const char *prefix) {
    put(out, "  ");
    put(out, prefix);
    put_left(out, row->name, 18 - strlen(prefix));
    put_number(out, value_of(figures, row), 16, ' ');
    put(out, " ");
    put_left(out, row->unit, 12);
    PUT(out, row->doc, "\n");
}

static void text_of_sections(output_t *out, const hk_sections_sum_t *sections) {
    for (const row_t *row = sampling_rows; row < sampling_rows + SAMPLING_ROWS; row++)
        text_of_row(out, sections, row, "sections_");
    put_left(out, "  section", 15);
    for (const row_t *row = timing_rows; row < timing_rows + TIMING_ROWS; row++)
        put_right(out, row->name, 14);
    for (unsigned i = 0; i < HK_SECTION_COUNT; i++) {
        put(out, "\n  ");
        put_left(out, section_rows[i].name, 13);
        for (const row_t *row = timing_rows; row < timing_rows + TIMING_ROWS; row++)
            put_number(out, value_of(&sections->of[i], row), 14, ' ');
        PUT(out, "  ", section_rows[i].doc);
    }
    put(out, "\n");
}

static void text(output_t *out, const hk_figures_t *figures) {
    const hak_stats_t *stats = &figures->stats;
    PUT(out, "hakmem " HK_VERSION ", process ");
    put_number(out, (uint64_t)HK_CALL(other, getpid()), 0, ' ');
    put(out, "\n");
    for (const row_t *row = heap_rows; row < heap_rows + HEAP_ROWS; row++)
        text_of_row(out, stats, row, "");
    put_left(out, "  band", 8);
    for (const row_t *row = band_rows; row < band_rows + BAND_ROWS; row++)
        put_right(out, row->name, 14);
    for (size_t band = 0; band < HAK_STATS_BANDS; band++) {
        put(out, "\n  ");
        put_left(out, hk_band_names[band], 6);
        for (const row_t *row = band_rows; row < band_rows + BAND_ROWS; row++)
            put_number(out, value_of(&stats->bands[band], row), 14, ' ');
    }
    put(out, "\n");
    if (has_sections(&figures->sections))
        text_of_sections(out, &figures->sections);
}

/* ---- JSON: whole numbers only, names as in hak_stats_t ---- */

static void json_object(output_t *out, const void *figures, const row_t *rows, size_t n,
                        const char *begin, const char *separator) {
    for (size_t i = 0; i < n; i++) {
        PUT(out, i == 0 ? begin : separator, "\"", rows[i].name, "\": ");
        put_number(out, value_of(figures, &rows[i]), 0, ' ');
    }
    put(out, "}");
}

static void json_of_sections(output_t *out, const hk_sections_sum_t *sections) {
    for (const row_t *row = sampling_rows; row < sampling_rows + SAMPLING_ROWS; row++) {
        PUT(out, ",\n \"sections_", row->name, "\": ");
        put_number(out, value_of(sections, row), 0, ' ');
    }
    put(out, ",\n \"sections_timer\": \"" HK_OS_TICKS "\",\n \"sections\": {");
    for (unsigned i = 0; has_sections(sections) && i < HK_SECTION_COUNT; i++) {
        PUT(out, i == 0 ? "" : ",", "\n  \"", section_rows[i].name, "\": ");
        json_object(out, &sections->of[i], timing_rows, TIMING_ROWS, "{", ", ");
    }
    put(out, "}");
}

static void json(output_t *out, const hk_figures_t *figures) {
    const hak_stats_t *stats = &figures->stats;
    PUT(out, "{\"hakmem\": \"" HK_VERSION "\",\n \"version\": ");
    put_number(out, stats->version, 0, ' ');
    put(out, ",\n \"pid\": ");
    put_number(out, (uint64_t)HK_CALL(other, getpid()), 0, ' ');
    put(out, ",\n \"heap\": ");
    json_object(out, stats, heap_rows, HEAP_ROWS, "{\n  ", ",\n  ");
    put(out, ",\n \"bands\": {");
    for (size_t band = 0; band < HAK_STATS_BANDS; band++) {
        PUT(out, band == 0 ? "" : ",", "\n  \"", hk_band_names[band], "\": ");
        json_object(out, &stats->bands[band], band_rows, BAND_ROWS, "{", ", ");
    }
    put(out, "}");
    json_of_sections(out, &figures->sections);
    put(out, "}\n");
}

/* ---- OpenMetrics ---- */

/* Names end with the unit where that is one to OpenMetrics (bytes, seconds): hakmem_x_bytes, and
 * hakmem_x_seconds for what is kept as x_ns. Counts of things have none. */
typedef struct {
    char name[64];
    const char *unit; /* NULL: none */
    bool nanoseconds;
} metric_t;

static metric_t metric_of(const char *prefix, const row_t *row) {
    metric_t metric = {.nanoseconds = strcmp(row->unit, "nanoseconds") == 0};
    if (metric.nanoseconds)
        metric.unit = "seconds";
    else if (strcmp(row->unit, "bytes") == 0)
        metric.unit = "bytes";
    hk_line_t line = {0};
    hk_line_str(&line, prefix);
    hk_line_str(&line, row->name);
    if (metric.nanoseconds)
        line.len -= strlen("_ns");
    size_t unit = metric.unit == NULL ? 0 : strlen(metric.unit);
    bool ends =
        unit != 0 && line.len > unit && memcmp(line.text + line.len - unit, metric.unit, unit) == 0;
    if (unit != 0 && !ends) {
        hk_line_str(&line, "_");
        hk_line_str(&line, metric.unit);
    }
    hk_assert(line.len < sizeof metric.name);
    memcpy(metric.name, line.text, line.len);
    return metric;
}

static void describe(output_t *out, const metric_t *metric, const row_t *row) {
    PUT(out, "# TYPE ", metric->name, row->counter ? " counter\n" : " gauge\n");
    if (metric->unit != NULL)
        PUT(out, "# UNIT ", metric->name, " ", metric->unit, "\n");
    PUT(out, "# HELP ", metric->name, " ", row->doc, "\n");
}

static void put_value(output_t *out, const metric_t *metric, uint64_t value) {
    enum { NS_PER_SECOND = 1000000000 };
    put(out, " ");
    put_number(out, metric->nanoseconds ? value / NS_PER_SECOND : value, 0, ' ');
    if (metric->nanoseconds) {
        put(out, ".");
        put_number(out, value % NS_PER_SECOND, 9, '0');
    }
    put(out, "\n");
}

/* A figure that is there once for all. */
static void openmetric(output_t *out, const char *prefix, const void *figures, const row_t *row) {
    metric_t metric = metric_of(prefix, row);
    describe(out, &metric, row);
    PUT(out, metric.name, row->counter ? "_total" : "");
    put_value(out, &metric, value_of(figures, row));
}

static void openmetrics_of_sections(output_t *out, const hk_sections_sum_t *sections) {
    for (const row_t *row = sampling_rows; row < sampling_rows + SAMPLING_ROWS; row++)
        openmetric(out, "hakmem_sections_", sections, row);
    for (const row_t *row = timing_rows; row < timing_rows + TIMING_ROWS; row++) {
        metric_t metric = metric_of("hakmem_section_", row);
        describe(out, &metric, row);
        for (unsigned i = 0; i < HK_SECTION_COUNT; i++) {
            PUT(out, metric.name, row->counter ? "_total" : "", "{section=\"", section_rows[i].name,
                "\"}");
            put_value(out, &metric, value_of(&sections->of[i], row));
        }
    }
}

static void openmetrics(output_t *out, const hk_figures_t *figures) {
    const hak_stats_t *stats = &figures->stats;
    PUT(out, "# TYPE hakmem info\n# HELP hakmem the allocator that wrote this\n",
        "hakmem_info{version=\"" HK_VERSION "\"} 1\n");
    for (const row_t *row = heap_rows; row < heap_rows + HEAP_ROWS; row++)
        openmetric(out, "hakmem_", stats, row);
    for (const row_t *row = band_rows; row < band_rows + BAND_ROWS; row++) {
        metric_t metric = metric_of("hakmem_band_", row);
        describe(out, &metric, row);
        for (size_t band = 0; band < HAK_STATS_BANDS; band++) {
            PUT(out, metric.name, "{band=\"", hk_band_names[band], "\"}");
            put_value(out, &metric, value_of(&stats->bands[band], row));
        }
    }
    if (has_sections(&figures->sections))
        openmetrics_of_sections(out, &figures->sections);
    put(out, "# EOF\n");
}

bool hk_emit_format(const char *word, size_t len, hak_stats_format_t *format) {
    static const char names[][12] = {[HAK_STATS_TEXT] = "text",
                                     [HAK_STATS_JSON] = "json",
                                     [HAK_STATS_OPENMETRICS] = "openmetrics"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && memcmp(word, names[i], len) == 0) {
            *format = (hak_stats_format_t)i;
            return true;
        }
    return false;
}

int hk_emit_stats(int fd, hak_stats_format_t format, const hk_figures_t *figures) {
    const int saved = errno;
    output_t out = {.fd = fd};
    if (format == HAK_STATS_TEXT)
        text(&out, figures);
    else if (format == HAK_STATS_JSON)
        json(&out, figures);
    else
        openmetrics(&out, figures);
    flush(&out);
    errno = saved;
    return out.error;
}

static void put_part(hk_line_t *line, const char *name, uint64_t value) {
    hk_line_str(line, " ");
    hk_line_str(line, name);
    hk_line_str(line, "=");
    hk_line_u64(line, value);
}

/* The kinds that have no name of their own there; these are mmap_total and madvise. */
static void put_other_kinds(hk_line_t *line, const uint64_t *counts) {
    static const char names[][16] = {
#define HK_CALL_KIND(kind, field, doc) [HK_CALL_##kind] = #kind,
#include "base/calls.def"
#undef HK_CALL_KIND
    };
    for (unsigned kind = 0; kind < HK_CALL_KINDS; kind++)
        if (kind != HK_CALL_mmap && kind != HK_CALL_madvise)
            put_part(line, names[kind], counts[kind]);
}

void hk_emit_os_line(int fd, bool disabled) {
    const uint64_t pid = (uint64_t)HK_CALL(other, getpid());
    uint64_t counts[HK_CALL_KINDS];
    const uint64_t sum = hk_calls_read(counts);
    hk_line_t line = {0};
    hk_line_str(&line, "[SS_OS_STATS]");
    put_part(&line, "alloc", hk_counted(region_maps));
    put_part(&line, "free", hk_counted(region_unmaps));
    put_part(&line, "madvise", counts[HK_CALL_madvise]);
    put_part(&line, "madvise_enomem", hk_counted(madvise_enomem));
    put_part(&line, "madvise_other", hk_counted(madvise_other));
    put_part(&line, "madvise_disabled", disabled);
    put_part(&line, "mmap_total", counts[HK_CALL_mmap]);
    put_part(&line, "fallback_mmap", hk_counted(single_maps));
    put_part(&line, "huge_alloc", hk_counted(huge_allocs));
    put_part(&line, "huge_fail", hk_counted(huge_failures));
    put_part(&line, "lean_decommit", hk_counted(purge_runs));
    put_part(&line, "lean_retire", hk_counted(superslabs_retired));
    put_other_kinds(&line, counts);
    put_part(&line, "calls", sum);
    put_part(&line, "pid", pid);
    hk_line_write(&line, fd);
}
