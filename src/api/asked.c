#include "api/asked.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/calls.h"
#include "base/worker.h"
#include "config/config.h"
#include "front/thread.h"
#include "os/os.h"

/* ---- paths ---- */

static uint64_t first; /* const: number of the process that read the environment */

void hk_asked_start(void) { first = HK_CALL(other, getpid()); }

static bool find(const char *path, int how, struct stat *there) {
    return HK_CALL(other, syscall(SYS_newfstatat, AT_FDCWD, path, there, how)) == 0;
}

/* stdout or stderr if it is that file; -1: neither. */
static int stream_to(const struct stat *there) {
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (hk_is_file(fd, there))
            return fd;
    return -1;
}

/* Whether processes can share the file because they only append to it: a device, a pipe, or a link
 * to a file that is a standard stream (/dev/stdout). */
static bool is_for_all(const char *path) {
    struct stat there;
    if (!find(path, AT_SYMLINK_NOFOLLOW, &there))
        return false;
    const bool is_link = S_ISLNK(there.st_mode);
    if (is_link && !find(path, 0, &there))
        return false;
    const bool is_replaced = S_ISREG(there.st_mode) || S_ISDIR(there.st_mode);
    return !is_replaced || (is_link && stream_to(&there) >= 0);
}

bool hk_asked_path(hk_line_t *path, const char *pattern) {
    hk_line_t bare = {0};
    const bool numbered = HK_CALL(other, getpid()) != first;
    return hk_line_path(&bare, pattern, false) &&
           hk_line_path(path, pattern, numbered && !is_for_all(bare.text));
}

/* ---- files ---- */

int hk_asked_emit(int fd, hk_emit_t *emit, const void *what) {
    if (fd < 0)
        return errno;
    int error = emit(fd, what);
    if (HK_CALL(other, close(fd)) != 0 && error == 0)
        error = errno;
    return error;
}

/* Writes to an existing path that is no regular file, maybe a link. If it leads to a standard
 * stream (/dev/stdout), writes to the stream: opening it anew would truncate what the program has
 * written. */
static int emit_beside(const char *path, hk_emit_t *emit, const void *what) {
    struct stat there;
    const int stream = find(path, 0, &there) ? stream_to(&there) : -1;
    if (stream >= 0)
        return emit(stream, what);
    return hk_asked_emit(hk_open(path, O_WRONLY | O_CREAT | O_TRUNC, HK_FOR_ALL), emit, what);
}

/* Errors of replacing a file that may still be written in place: it is a mount, or the process may
 * not write to its folder. */
static bool keeps_its_place(int error) {
    return error == EBUSY || error == EACCES || error == EPERM || error == EROFS || error == EXDEV;
}

int hk_asked_file(const hk_line_t *path, unsigned mode, hk_emit_t *emit, const void *what) {
    struct stat there;
    const bool may_stay = mode == HK_FOR_ALL && find(path->text, AT_SYMLINK_NOFOLLOW, &there);
    if (may_stay && !S_ISREG(there.st_mode))
        return emit_beside(path->text, emit, what);
    hk_line_t part = *path;
    hk_line_put(&part, ".%lu.tmp", HK_CALL(other, getpid()));
    hk_line_text(&part);
    HK_CALL(other, unlink(part.text)); /* a leftover or a planted link */
    const int fd = hk_open(part.text, O_WRONLY | O_CREAT | O_EXCL, mode);
    int refused = fd < 0 ? errno : 0, error = hk_asked_emit(fd, emit, what);
    if (error == 0 &&
        HK_CALL(other, syscall(SYS_renameat, AT_FDCWD, part.text, AT_FDCWD, path->text)) != 0)
        error = refused = errno;
    if (error != 0)
        HK_CALL(other, unlink(part.text));
    if (may_stay && keeps_its_place(refused))
        error = hk_asked_emit(hk_open(path->text, O_WRONLY | O_TRUNC | O_NOFOLLOW, 0), emit, what);
    return error;
}

/* ---- signals ---- */

static void (*writers[2])(void); /* const once listened to: for SIGUSR1 and SIGUSR2 */
static _Atomic uint32_t asked;   /* atomic: a bit for each signal; the thread sleeps on it */

static unsigned writer_of(int number) { return number == SIGUSR2; }

static void on_signal(int number) {
    hk_or_seq(&asked, 1u << writer_of(number));
    hk_os_wake(&asked);
}

/* const once there is a writer: the main thread's record; NULL: out of memory. */
static hk_thread_t *of_main;

/* Whether the process's main thread has ended and only workers are left. The record of the main
 * thread is an orphan then, another thread's, or this worker's. Only in the first and last case are
 * the threads counted, because a sandbox may end the process for that. */
static bool outlives_all(void) {
    if (of_main == NULL ||
        !(hk_load_relaxed(&of_main->heap.orphan) || of_main == hk_load_relaxed(&hk_tc)->thread))
        return false;
    const unsigned left = hk_os_threads_left();
    return left != 0 && left <= hk_load_relaxed(&hk_workers);
}

/* Runs the writers when a signal asks for them. Once only workers are left, it calls exit(), as the
 * program's last thread would have. A worker may begin or end during a look, so two consecutive
 * looks must agree. */
static void write_when_asked(void) {
    enum { LOOK_MS = 5000 };
    HK_CALL(other, syscall(SYS_prctl, PR_SET_NAME, "hakmem-stats"));
    for (bool alone = false;;) {
        const uint32_t now = hk_exchange_seq(&asked, 0u);
        if (now == 0) {
            const bool before = alone;
            alone = outlives_all();
            if (alone && before)
                exit(EXIT_SUCCESS);
            hk_os_wait(&asked, 0, LOOK_MS);
        }
        for (unsigned i = 0; i < 2; i++)
            if ((now & 1u << i) != 0)
                writers[i]();
    }
}

static void warn(int number, const char *problem) {
    const bool profile = number == SIGUSR1;
    hk_config_warn(profile ? "HAKMEM_PROF_SIGNAL" : "HAKMEM_STATS_SIGNAL", "1", problem,
                   profile ? "SIGUSR1 writes no profile" : "SIGUSR2 writes no statistics");
}

void hk_asked_in_children(void (*start)(void)) {
    hk_thread_served();
    pthread_atfork(NULL, NULL, start);
}

static bool runs; /* whether this process has the thread; a fork's child has not */
static void forget(void) { runs = false; }

int hk_asked_watch(void) {
    static bool in_children;
    if (!in_children)
        hk_asked_in_children(forget); /* registered before the one that starts it there */
    in_children = true;
    of_main = hk_thread_served();
    if (runs)
        return 0;
    hk_store_seq(&asked, 0u);
    const int error = hk_worker_start(write_when_asked);
    runs = error == 0;
    return error;
}

static bool start(int number) {
    const int error = hk_asked_watch();
    if (error != 0)
        warn(number, hk_error_text(error));
    return error == 0;
}

static void start_in_child(void) { start(writers[1] != NULL ? SIGUSR2 : SIGUSR1); }

void hk_asked_listen(int number, void (*write)(void)) {
    static bool in_children;
    struct sigaction now, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    if (HK_COUNTED(other, sigaction(number, NULL, &now)) != 0 || now.sa_handler != SIG_DFL) {
        warn(number, number == SIGUSR1 ? "SIGUSR1 is ignored or handled already"
                                       : "SIGUSR2 is ignored or handled already");
        return;
    }
    writers[writer_of(number)] = write;
    if (!start(number))
        return;
    if (!in_children)
        hk_asked_in_children(start_in_child);
    in_children = true;
    HK_COUNTED(other, sigaction(number, &ours, NULL));
}
