/* HAKMEM_STATS and HAKMEM_SS_OS_STATS: what is written at exit and, where HAKMEM_STATS_SIGNAL asks
 * for it, on SIGUSR2. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/asked.h"
#include "api/stats.h"
#include "backend/advise.h"
#include "base/calls.h"
#include "base/report.h"
#include "config/config.h"
#include "stats/emit.h"

/* ---- where to ---- */

/* const once start() has run */
static struct {
    bool wanted; /* HAKMEM_STATS is set, and makes sense */
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
        return hk_emit_stats(STDERR_FILENO, target.format, &figures);
    return hk_asked_path(&path, target.path) ? hk_asked_file(&path, emit, &figures) : ENAMETOOLONG;
}

/* One warning, however often it fails. */
static void write_statistics(void) {
    static bool warned; /* lock: hk_writing */
    pthread_mutex_lock(&hk_writing);
    int error = emit_to_target();
    if (error != 0 && !warned) {
        warned = true;
        warn(error == EBUSY ? "a signal interrupted the allocator" : strerror(error),
             "no statistics are written");
    }
    pthread_mutex_unlock(&hk_writing);
}

/* ---- the process's beginning and end ---- */

/* After the options have been read (api/start.c). */
__attribute__((constructor(102))) static void start(void) {
    const char *value = hk_option(stats);
    if (value == NULL)
        return;
    target.wanted = parse_target(value);
    hk_asked_start();
    if (!target.wanted)
        warn("allowed are text, json and openmetrics, with a colon and a path or alone",
             "no statistics are written");
    else if (hk_option(stats_signal) != 0)
        hk_asked_listen(SIGUSR2, write_statistics);
}

__attribute__((destructor(102))) static void finish(void) {
    if (target.wanted)
        write_statistics();
    if (hk_option(os_stats) != 0)
        hk_emit_os_line(STDERR_FILENO, hk_advice_is_disabled());
}
