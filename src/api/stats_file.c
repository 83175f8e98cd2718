/* HAKMEM_STATS and HAKMEM_SS_OS_STATS: what is written at exit and, where HAKMEM_STATS_SIGNAL asks
 * for it, on SIGUSR2.
 *
 * The signal's handler only wakes a thread of ours, which sleeps otherwise and exists only where
 * asked for. That does the writing, because statistics need locks that the interrupted code may
 * hold. A forked child starts a thread of its own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/stats.h"
#include "backend/advise.h"
#include "base/calls.h"
#include "base/report.h"
#include "base/worker.h"
#include "config/config.h"
#include "front/thread.h"
#include "os/os.h"
#include "stats/emit.h"

/* ---- where to ---- */

/* const once start() has run */
static struct {
    bool wanted; /* HAKMEM_STATS is set, and makes sense */
    hak_stats_format_t format;
    const char *path; /* as given; NULL: stderr */
    pid_t pid;        /* of the process that read the environment */
} target;

static void warn(const char *problem, const char *consequence) {
    hk_config_warn("HAKMEM_STATS", hk_option(stats), problem, consequence);
}

/* "FORMAT" or "FORMAT:PATH". */
static bool parse_target(const char *value) {
    static const char *const names[] = {[HAK_STATS_TEXT] = "text",
                                        [HAK_STATS_JSON] = "json",
                                        [HAK_STATS_OPENMETRICS] = "openmetrics"};
    size_t len = strcspn(value, ":");
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && memcmp(value, names[i], len) == 0) {
            target.format = (hak_stats_format_t)i;
            target.path = value[len] == ':' ? value + len + 1 : NULL;
            return target.path == NULL || *target.path != '\0';
        }
    return false;
}

static pid_t own_pid(void) { return HK_CALL(other, getpid()); }

static void append_pid(hk_line_t *line) { hk_line_u64(line, (uint64_t)own_pid()); }

/* Where the path has no %p, a forked child puts its number at the end: it must not overwrite what
 * its parent writes. False: it is too long. */
static bool expand(hk_line_t *path) {
    bool numbered;
    if (!hk_line_path(path, target.path, &numbered))
        return false;
    if (!numbered && own_pid() != target.pid) {
        hk_line_str(path, ".");
        append_pid(path);
        path->text[path->len] = '\0';
    }
    return true;
}

/* ---- writing ---- */

static int emit_into(const char *path, const hk_figures_t *figures) {
    int fd = HK_CALL(other, open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd < 0)
        return errno;
    int error = hk_emit_stats(fd, target.format, figures);
    if (HK_CALL(other, close(fd)) != 0 && error == 0)
        error = errno;
    return error;
}

/* Readers see the old file or the whole new one. What is there and no regular file (a device, a
 * pipe, a link) is written to, not replaced. */
static int emit_to_path(const hk_line_t *path, const hk_figures_t *figures) {
    struct stat there;
    if (HK_CALL(other, lstat(path->text, &there)) == 0 && !S_ISREG(there.st_mode))
        return emit_into(path->text, figures);
    hk_line_t part = *path;
    hk_line_str(&part, ".");
    append_pid(&part);
    hk_line_str(&part, ".tmp");
    part.text[part.len] = '\0';
    int error = emit_into(part.text, figures);
    if (error == 0 && HK_CALL(other, rename(part.text, path->text)) != 0)
        error = errno;
    if (error != 0)
        HK_CALL(other, unlink(part.text));
    return error;
}

static int emit_to_target(void) {
    hk_figures_t figures;
    hk_line_t path = {0};
    if (!hk_figures_collect(&figures))
        return EBUSY;
    if (target.path == NULL)
        return hk_emit_stats(STDERR_FILENO, target.format, &figures);
    return expand(&path) ? emit_to_path(&path, &figures) : ENAMETOOLONG;
}

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* One warning, however often it fails. */
static void write_statistics(void) {
    static bool warned; /* lock: writing */
    pthread_mutex_lock(&writing);
    int error = emit_to_target();
    if (error != 0 && !warned) {
        warned = true;
        warn(error == EBUSY ? "a signal interrupted the allocator" : strerror(error),
             "no statistics are written");
    }
    pthread_mutex_unlock(&writing);
}

/* ---- SIGUSR2 ---- */

static _Atomic uint32_t asked; /* atomic: how often; the writer sleeps on it */

static void on_signal(int number) {
    (void)number;
    hk_add_seq(&asked, 1u);
    hk_os_wake(&asked);
}

static void *write_when_asked(void *unused) {
    HK_CALL(other, pthread_setname_np(pthread_self(), "hakmem-stats"));
    for (uint32_t seen = 0;;) {
        uint32_t now = hk_load_seq(&asked);
        if (now == seen)
            hk_os_wait(&asked, seen, 0);
        else
            write_statistics();
        seen = now;
    }
    return unused;
}

static void warn_signal(const char *problem) {
    hk_config_warn("HAKMEM_STATS_SIGNAL", "1", problem, "SIGUSR2 writes no statistics");
}

static bool start_writer(void) {
    hk_store_seq(&asked, 0u);
    int error = hk_worker_start(write_when_asked);
    if (error != 0)
        warn_signal(strerror(error));
    return error == 0;
}

static void start_in_child(void) {
    pthread_mutex_init(&writing, NULL); /* the parent's thread may have held it */
    start_writer();
}

/* A program's own handler stays, whether it was there before or comes later. */
static void listen(void) {
    struct sigaction now, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (HK_CALL(other, sigaction(SIGUSR2, NULL, &now)) != 0 || now.sa_handler != SIG_DFL) {
        warn_signal("SIGUSR2 is ignored or handled already");
    } else if (start_writer()) {
        /* In a child the allocator's own fork handler must run before ours: it comes first. */
        hk_thread_t *self = hk_thread_enter();
        if (self != NULL)
            hk_thread_leave(self);
        pthread_atfork(NULL, NULL, start_in_child);
        HK_CALL(other, sigaction(SIGUSR2, &ours, NULL));
    }
}

/* ---- the process's beginning and end ---- */

/* After the options have been read (api/start.c). */
__attribute__((constructor(102))) static void start(void) {
    const char *value = hk_option(stats);
    if (value == NULL)
        return;
    target.wanted = parse_target(value);
    target.pid = own_pid();
    if (!target.wanted)
        warn("allowed are text, json and openmetrics, with a colon and a path or alone",
             "no statistics are written");
    else if (hk_option(stats_signal) != 0)
        listen();
}

__attribute__((destructor(101))) static void finish(void) {
    if (target.wanted)
        write_statistics();
    if (hk_option(os_stats) != 0)
        hk_emit_os_line(STDERR_FILENO, hk_advice_is_disabled());
}
