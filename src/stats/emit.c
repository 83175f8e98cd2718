#include "stats/emit.h"

#include "base/calls.h"
#include "base/counters.h"
#include "base/report.h"
#include "os/ticks.h"

const char hk_band_names[HAK_STATS_BANDS][6] = {"C0", "C1", "C2",  "C3",    "C4",  "C5",
                                                "C6", "C7", "mid", "large", "huge"};

/* A figure of hak_stats_t, hak_stats_band_t, the sections or one section. The texts are in the row
 * itself: pointers would be relocated at each process start. */
typedef struct {
    char name[24], unit[16], doc[104];
    bool counter;
    size_t offset;
} row_t;

enum { COUNTS_SUM = true, COUNTS_MOST = false };

static const row_t heap_rows[] = {
#define HK_GAUGE(name, unit, doc) {#name, unit, doc, false, offsetof(hak_stats_t, name)},
#define HK_TOTAL(name, unit, doc) {#name, unit, doc, true, offsetof(hak_stats_t, name)},
#include "stats/fields.def"
};

static const row_t band_rows[] = {
#define HK_BAND(name, unit, doc) {#name, unit, doc, false, offsetof(hak_stats_band_t, name)},
#include "stats/fields.def"
};

static const row_t sampling_rows[] = {
    {"sample", "entries", "every so many entries of a section one is timed; 0: none", false,
     offsetof(hk_sections_sum_t, sample)},
    {"overhead", "cycles", "what an empty section is timed with at the least", false,
     offsetof(hk_sections_sum_t, overhead)},
};

static const row_t timing_rows[] = {
#define HK_TIMING(name, over, unit, doc)                                                           \
    {#name, unit, doc, COUNTS_##over, offsetof(hk_section_sum_t, name)},
#include "stats/sections.def"
};

static const struct {
    char name[24], doc[144];
} section_rows[] = {
#define HK_SECTION(name, doc) {#name, doc},
#include "stats/sections.def"
};

#define ROWS(rows) (sizeof(rows) / sizeof(rows)[0])

/* There is a row for each field. */
_Static_assert(sizeof(hak_stats_band_t) == ROWS(band_rows) * sizeof(uint64_t), "band without row");
_Static_assert(sizeof(hak_stats_t) ==
                   offsetof(hak_stats_t, allocated) + ROWS(heap_rows) * sizeof(uint64_t),
               "figure without row");

/* A list of figures, or a table with the same figures for each band or section, one line each. */
typedef struct {
    const char *prefix; /* prefix of the figures' names */
    const char *of;     /* what a table's lines are; NULL: a list, one line without a name */
    int width;          /* of the lines' names in text output */
    unsigned lines, columns;
    size_t name_bytes, bytes;           /* strides: of names and docs, and of figures */
    const char *names, *docs, *figures; /* the first line's; NULL: no docs */
    const row_t *rows;                  /* the columns */
} table_t;

enum { HEAP, BANDS, SAMPLING, SECTIONS, TABLES };

typedef struct {
    table_t of[TABLES];
    unsigned count; /* fewer if there are no sections to print */
} tables_t;

static tables_t tables_of(const hk_figures_t *figures) {
    const hk_sections_sum_t *sections = &figures->sections;
#define FIGURES(of, table) .columns = ROWS(of), .rows = (of), .figures = (const char *)(table)
    return (tables_t){
        {[HEAP] = {"", NULL, .lines = 1, FIGURES(heap_rows, &figures->stats)},
         [BANDS] = {"band_", "band", 6, HAK_STATS_BANDS, .names = hk_band_names[0],
                    .name_bytes = sizeof hk_band_names[0], .bytes = sizeof(hak_stats_band_t),
                    FIGURES(band_rows, figures->stats.bands)},
         [SAMPLING] = {"sections_", NULL, .lines = 1, FIGURES(sampling_rows, sections)},
         [SECTIONS] = {"section_", "section", 13, HK_SECTION_COUNT, .names = section_rows->name,
                       .docs = section_rows->doc, .name_bytes = sizeof *section_rows,
                       .bytes = sizeof sections->of[0], FIGURES(timing_rows, sections->of)}},
        sections->overhead != 0 ? TABLES : SAMPLING,
    };
}

static const char *name_of(const table_t *table, unsigned line) {
    return table->names + line * table->name_bytes;
}

static uint64_t value_of(const table_t *table, unsigned line, const row_t *row) {
    uint64_t value;
    memcpy(&value, table->figures + line * table->bytes + row->offset, sizeof value);
    return value;
}

#define foreach(row, table)                                                                        \
    for (const row_t *row = (table)->rows; row < (table)->rows + (table)->columns; row++)

/* ---- text ---- */

static void text_of_list(hk_output_t *out, const table_t *list) {
    foreach (row, list)
        hk_output_put(out, "  %s%-*s %15lu %-12s%s\n", list->prefix, 18 - (int)strlen(list->prefix),
                      row->name, value_of(list, 0, row), row->unit, row->doc);
}

static void text_of_table(hk_output_t *out, const table_t *table) {
    hk_output_put(out, "  %-*s", table->width, table->of);
    foreach (row, table)
        hk_output_put(out, "%14s", row->name);
    for (unsigned line = 0; line < table->lines; line++) {
        hk_output_put(out, "\n  %-*s", table->width, name_of(table, line));
        foreach (row, table)
            hk_output_put(out, " %13lu", value_of(table, line, row));
        if (table->docs != NULL)
            hk_output_put(out, "  %s", table->docs + line * table->name_bytes);
    }
    hk_output_put(out, "\n");
}

static void text(hk_output_t *out, const tables_t *tables) {
    hk_output_put(out, "hakmem " HK_VERSION ", process %lu\n", HK_CALL(other, getpid()));
    for (const table_t *table = tables->of; table < tables->of + tables->count; table++)
        if (table->of == NULL)
            text_of_list(out, table);
        else
            text_of_table(out, table);
}

/* ---- JSON: whole numbers only, names as in hak_stats_t ---- */

static void json_object(hk_output_t *out, const table_t *table, unsigned line, const char *begin,
                        const char *separator) {
    foreach (row, table)
        hk_output_put(out, "%s\"%s\": %lu", row == table->rows ? begin : separator, row->name,
                      value_of(table, line, row));
    hk_output_put(out, "}");
}

static void json_of_table(hk_output_t *out, const table_t *table, bool any) {
    hk_output_put(out, ",\n \"%ss\": {", table->of);
    for (unsigned line = 0; any && line < table->lines; line++) {
        hk_output_put(out, "%s\n  \"%s\": ", line == 0 ? "" : ",", name_of(table, line));
        json_object(out, table, line, "{", ", ");
    }
    hk_output_put(out, "}");
}

static void json(hk_output_t *out, const tables_t *tables, uint64_t version) {
    const table_t *sampling = &tables->of[SAMPLING];
    hk_output_put(
        out, "{\"hakmem\": \"" HK_VERSION "\",\n \"version\": %lu,\n \"pid\": %lu,\n \"heap\": ",
        version, HK_CALL(other, getpid()));
    json_object(out, &tables->of[HEAP], 0, "{\n  ", ",\n  ");
    json_of_table(out, &tables->of[BANDS], true);
    foreach (row, sampling)
        hk_output_put(out, ",\n \"sections_%s\": %lu", row->name, value_of(sampling, 0, row));
    hk_output_put(out, ",\n \"sections_timer\": \"" HK_OS_TICKS "\"");
    json_of_table(out, &tables->of[SECTIONS], tables->count == TABLES);
    hk_output_put(out, "}\n");
}

/* ---- OpenMetrics ---- */

static bool ends_with(const char *s, size_t len, const char *end) {
    return len >= strlen(end) && memcmp(s + len - strlen(end), end, strlen(end)) == 0;
}

/* Names end with the unit if OpenMetrics knows it (bytes, seconds): hakmem_x_bytes, and
 * hakmem_x_seconds for a field x_ns. Counts have no unit. */
static void openmetric(hk_output_t *out, const table_t *table, const row_t *row) {
    enum { NS_PER_SECOND = 1000000000 };
    const bool nanoseconds = strcmp(row->unit, "nanoseconds") == 0;
    const char *unit = nanoseconds ? "seconds" : strcmp(row->unit, "bytes") == 0 ? "bytes" : "";
    const size_t len = strlen(row->name) - (nanoseconds ? strlen("_ns") : 0);
    const bool ends = ends_with(row->name, len, unit);
    hk_line_t line = {0};
    hk_line_put(&line, "hakmem_%s%.*s%s%s", table->prefix, (int)len, row->name, ends ? "" : "_",
                ends ? "" : unit);
    const char *name = hk_line_text(&line);
    hk_output_put(out, "# TYPE %s %s\n", name, row->counter ? "counter" : "gauge");
    if (*unit != '\0')
        hk_output_put(out, "# UNIT %s %s\n", name, unit);
    hk_output_put(out, "# HELP %s %s\n", name, row->doc);
    for (unsigned i = 0; i < table->lines; i++) {
        const uint64_t value = value_of(table, i, row);
        hk_output_put(out, "%s%s", name, row->counter ? "_total" : "");
        if (table->of != NULL)
            hk_output_put(out, "{%s=\"%s\"}", table->of, name_of(table, i));
        if (nanoseconds)
            hk_output_put(out, " %lu.%09lu\n", value / NS_PER_SECOND, value % NS_PER_SECOND);
        else
            hk_output_put(out, " %lu\n", value);
    }
}

static void openmetrics(hk_output_t *out, const tables_t *tables) {
    hk_output_put(out, "# TYPE hakmem info\n# HELP hakmem the allocator that wrote this\n"
                       "hakmem_info{version=\"" HK_VERSION "\"} 1\n");
    for (const table_t *table = tables->of; table < tables->of + tables->count; table++)
        foreach (row, table)
            openmetric(out, table, row);
    hk_output_put(out, "# EOF\n");
}

bool hk_emit_format(const char *word, size_t len, hak_stats_format_t *format) {
    uint64_t number;
    const bool found = hk_word_find("text|json|openmetrics", word, len, &number);
    if (found)
        *format = (hak_stats_format_t)number;
    return found;
}

int hk_emit_stats(int fd, hak_stats_format_t format, const hk_figures_t *figures) {
    const int saved = errno;
    const tables_t tables = tables_of(figures);
    hk_output_t out = {.fd = fd};
    if (format == HAK_STATS_TEXT)
        text(&out, &tables);
    else if (format == HAK_STATS_JSON)
        json(&out, &tables, figures->stats.version);
    else
        openmetrics(&out, &tables);
    hk_output_flush(&out);
    errno = saved;
    return out.error;
}

void hk_emit_os_line(int fd, bool disabled) {
    hk_line_t line = {0};
    uint64_t calls = 0;
    const uint64_t self = HK_CALL(other, getpid());
    hk_line_put(&line, "[SS_OS_STATS] alloc=%lu free=%lu madvise=%lu madvise_enomem=%lu",
                hk_counted(region_maps), hk_counted(region_unmaps), hk_counted(madvise),
                hk_counted(madvise_enomem));
    hk_line_put(&line, " madvise_other=%lu madvise_disabled=%lu mmap_total=%lu fallback_mmap=%lu",
                hk_counted(madvise_other), (uint64_t)disabled, hk_counted(maps),
                hk_counted(single_maps));
    hk_line_put(&line, " huge_alloc=%lu huge_fail=%lu lean_decommit=%lu lean_retire=%lu",
                hk_counted(huge_allocs), hk_counted(huge_failures), hk_counted(purge_runs),
                hk_counted(superslabs_retired));
    /* without mmap and madvise, which are in the line already */
#define HK_CALL_KIND(kind, name, doc)                                                              \
    calls += hk_counted(name);                                                                     \
    if (HK_CALL_##kind != HK_CALL_mmap && HK_CALL_##kind != HK_CALL_madvise)                       \
        hk_line_put(&line, " " #kind "=%lu", hk_counted(name));
#include "base/counters.def"
    hk_line_put(&line, " calls=%lu pid=%lu", calls, self);
    hk_line_write(&line, fd);
}
