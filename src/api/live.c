/* HAKMEM_LIVE: serves the statistics of the running process on a socket (docs/statistics.md).
 *
 * A thread of ours, which exists only where asked for, listens at a socket in the abstract
 * namespace: that has no file and is gone with the process, however it ends. The thread has its own
 * table of open files with only the socket in it, so the program cannot close the socket, and the
 * thread keeps no file of the program's open. Without the program's streams it cannot end a process
 * of which only it is left: the thread of api/asked.h is started for that. A forked child starts
 * its own threads. */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "api/asked.h"
#include "api/stats.h"
#include "base/calls.h"
#include "base/report.h"
#include "base/worker.h"
#include "config/config.h"
#include "os/os.h"
#include "stats/emit.h"

#define UNSHARE 2u /* CLOSE_RANGE_UNSHARE, which older headers do not have */
enum { WAITING = 8, LONGEST_WORD = 15, RETRY_MS = 1000 };

static void warn(const char *problem) {
    hk_config_warn("HAKMEM_LIVE", "1", problem, "the process cannot be watched");
}

static void warn_of(const char *step, int error) {
    hk_line_t line = {0};
    hk_line_put(&line, "%s: %s", step, hk_error_text(error));
    warn(hk_line_text(&line));
}

/* ---- a connection ---- */

/* Whether the number means a single user. In a user namespace that does not map all users, all
 * unmapped ones have the same number, which may be a mapped user's elsewhere. */
static bool is_of_one_user(uid_t uid) {
    enum { ANY_UNKNOWN = 65534 };
    hk_os_lines_t lines;
    uint64_t number = 0;
    if (uid != ANY_UNKNOWN)
        return true;
    hk_os_lines_open(&lines, "/proc/self/uid_map");
    const char *s = hk_os_line(&lines); /* first user inside, first user outside, how many */
    for (unsigned i = 0; s != NULL && i < 3; i++) {
        while (*s == ' ')
            s++;
        hk_parse(&s, &number);
    }
    hk_os_lines_close(&lines);
    return number == UINT32_MAX;
}

static bool may_know(int fd) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (HK_CALL(other, syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes)) != 0)
        return false;
    const uid_t own = (uid_t)HK_CALL(other, syscall(SYS_geteuid));
    return who.uid == 0 || (who.uid == own && is_of_one_user(own));
}

/* Reads one word, up to the end of the line or of the input. An empty one means JSON. */
static bool read_format(int fd, hak_stats_format_t *format) {
    char word[LONGEST_WORD + 1];
    size_t len = 0;
    ssize_t n = 0;
    while (len < sizeof word && memchr(word, '\n', len) == NULL &&
           (n = HK_CALL(other, read(fd, word + len, sizeof word - len))) > 0)
        len += (size_t)n;
    const char *end = memchr(word, '\n', len);
    len = end != NULL ? (size_t)(end - word) : len;
    *format = HAK_STATS_JSON;
    return n >= 0 && (len == 0 || hk_emit_format(word, len, format));
}

static void answer(int fd) {
    const struct timeval patience = {.tv_sec = 1};
    hak_stats_format_t format;
    hk_figures_t figures;
    HK_CALL(other,
            syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    HK_CALL(other,
            syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience));
    if (may_know(fd) && read_format(fd, &format) && hk_figures_collect(&figures))
        hk_emit_stats(fd, format, &figures);
}

/* ---- the thread ---- */

/* Listens at "hakmem/PROCESS/RANDOM": the process's number alone may exist in another container
 * too. -1: the call `*step` failed. */
static int listen_alone(const char **step) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    hk_line_t name = {0};
    hk_line_put(&name, "hakmem/%lu/%#lx", HK_CALL(other, getpid()), hk_os_random());
    memcpy(address.sun_path + 1, name.text, name.len);
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name.len);
    *step = "socket()";
    int fd = HK_CALL(other, syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    *step = "bind()";
    if (HK_CALL(other, syscall(SYS_bind, fd, &address, bytes)) != 0)
        return -1;
    *step = "listen()";
    return HK_CALL(other, syscall(SYS_listen, fd, WAITING)) == 0 ? fd : -1;
}

static bool close_from(unsigned first, unsigned flags) {
    return HK_CALL(other, syscall(SYS_close_range, first, UINT32_MAX, flags)) == 0;
}

static atomic_bool
    cannot; /* atomic: any thread; forked children cannot either and do not warn again */

/* Leaves the program's table of open files; the socket becomes descriptors 0 to 2. */
static bool move_out(void) {
    if (!close_from(UINT32_MAX, UNSHARE)) {
        hk_store_relaxed(&cannot, true);
        warn("the system gives a thread no open files of its own (close_range, Linux 5.9)");
        return false;
    }
    const char *step;
    int fd = listen_alone(&step);
    if (fd < 0)
        warn_of(step, errno);
    for (int i = 0; fd >= 0 && i <= STDERR_FILENO; i++)
        if (i != fd)
            HK_CALL(other, syscall(SYS_dup3, fd, i, 0));
    return fd >= 0 && close_from(STDERR_FILENO + 1, 0);
}

static void serve(void) {
    HK_CALL(other, syscall(SYS_prctl, PR_SET_NAME, "hakmem-live"));
    if (!move_out())
        return;
    for (_Atomic uint32_t never = 0;;) {
        int fd = HK_CALL(other, syscall(SYS_accept4, 0, NULL, NULL, SOCK_CLOEXEC));
        if (fd < 0) { /* e.g. the system has no more files for now */
            hk_os_wait(&never, 0, RETRY_MS);
            continue;
        }
        answer(fd);
        HK_CALL(other, close(fd));
    }
}

static void start_thread(void) {
    if (hk_load_relaxed(&cannot))
        return;
    int error = hk_asked_watch();
    if (error == 0)
        error = hk_worker_start(serve);
    if (error != 0)
        warn_of("no thread can be started", error);
}

void hk_live_begin(void) {
    if (hk_option(live) == 0)
        return;
    start_thread();
    hk_asked_in_children(start_thread); /* after what that registers for children */
}
