/* HAKMEM_STATS, HAKMEM_SS_OS_STATS and HAKMEM_TINY_FRONT_DUMP: reports at exit and, if
 * HAKMEM_STATS_SIGNAL is set, statistics on SIGUSR2. */
#include <signal.h>

#include "api/asked.h"
#include "api/stats.h"
#include "backend/advise.h"
#include "base/calls.h"
#include "base/report.h"
#include "config/config.h"
#include "front/observed.h"
#include "stats/emit.h"

/* ---- where to ---- */

/* const once hk_stats_begin() has run */
static struct {
    bool wanted; /* HAKMEM_STATS is set and valid */
    hak_stats_format_t format;
    const char *path; /* as given; NULL: stderr */
} target;

static void warn(const char *problem, const char *consequence) {
    hk_config_warn("HAKMEM_STATS", hk_option(stats), problem, consequence);
}

/* "FORMAT" or "FORMAT:PATH". */
static bool parse_target(const char *value) {
    const size_t len = strcspn(value, ":");
    target.path = value[len] == ':' ? value + len + 1 : NULL;
    return hk_emit_format(value, len, &target.format) &&
           (target.path == NULL || *target.path != '\0');
}

/* ---- writing ---- */

static int emit(int fd, const void *figures) { return hk_emit_stats(fd, target.format, figures); }

static int emit_to_target(void) {
    hk_figures_t figures;
    hk_line_t path = {0};
    if (!hk_figures_collect(&figures))
        return EBUSY;
    if (target.path == NULL)
        return hk_emit_stats(hk_stderr(), target.format, &figures);
    return hk_asked_path(&path, target.path) ? hk_asked_file(&path, HK_FOR_ALL, emit, &figures)
                                             : ENAMETOOLONG;
}

/* Warns at most once, however often it fails. */
static void write_statistics(void) {
    static bool warned; /* lock: hk_writing */
    hk_lock(&hk_writing);
    int error = emit_to_target();
    if (error != 0 && !warned) {
        warned = true;
        warn(error == EBUSY ? "a signal interrupted the allocator, or a fork lasts"
                            : hk_error_text(error),
             "no statistics are written");
    }
    hk_unlock(&hk_writing);
}

/* ---- the front metrics ---- */

static bool dumps(void) {
    const char *where = hk_option(front_dump);
    return !HK_FAST && where != NULL && *where != '\0' && strcmp(where, "0") != 0;
}

static int emit_metrics(int fd, const void *sum) { return hk_metrics_write(sum, fd); }

/* Appends: a forked child does not overwrite its parent's lines. */
static int dump_to(const char *where, const hk_metrics_sum_t *sum) {
    hk_line_t path = {0};
    if (strcmp(where, "1") == 0)
        return hk_metrics_write(sum, hk_stderr());
    if (!hk_line_path(&path, where, false))
        return ENAMETOOLONG;
    return hk_asked_emit(hk_open(path.text, O_WRONLY | O_CREAT | O_APPEND, HK_FOR_ALL),
                         emit_metrics, sum);
}

static void dump(void) {
    const char *where = hk_option(front_dump), *problem = NULL;
    if (!dumps())
        return;
    hk_metrics_sum_t sum;
    if (!hk_front_metrics(&sum)) {
        problem = "a signal handler ended the process inside the allocator";
    } else {
        const int error = dump_to(where, &sum);
        problem = error != 0 ? hk_error_text(error) : NULL;
    }
    if (problem != NULL)
        hk_config_warn("HAKMEM_TINY_FRONT_DUMP", where, problem, "no front metrics are written");
}

/* ---- the process's beginning and end ---- */

void hk_stats_begin(void) {
    const char *value = hk_option(stats);
    if (dumps() && strcmp(hk_option(front_dump), "1") != 0)
        hk_path_keep(hk_option(front_dump));
    if (value == NULL)
        return;
    target.wanted = parse_target(value);
    if (!target.wanted) {
        warn("allowed are text, json and openmetrics, with a colon and a path or alone",
             "no statistics are written");
        return;
    }
    if (target.path != NULL)
        hk_path_keep(target.path);
    if (hk_option(stats_signal) != 0)
        hk_asked_listen(SIGUSR2, write_statistics);
}

/* Runs on the thread that called exit(). Other threads may still run; what they do meanwhile may or
 * may not be counted. */
void hk_stats_end(void) {
    dump();
    if (target.wanted)
        write_statistics();
    if (hk_option(os_stats) != 0)
        hk_emit_os_line(hk_stderr(), hk_advice_is_disabled());
}
