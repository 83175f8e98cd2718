#include "base/report.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/calls.h"

static void put(hk_line_t *line, const char *s, size_t n) {
    hk_assert(line->len < sizeof line->text);        /* else room wraps around */
    size_t room = sizeof line->text - 1 - line->len; /* one byte is kept for the newline */
    n = hk_min(n, room);
    memcpy(line->text + line->len, s, n);
    line->len += n;
}

bool hk_parse(const char **s, uint64_t *value) {
    uint64_t n = 0;
    const char *at = *s;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
            return false;
    const bool any = at != *s;
    *s = at;
    *value = n;
    return any;
}

const char *hk_word_at(const char *words, uint64_t number) {
    for (; number > 0 && words != NULL; number--) {
        words += strcspn(words, "|");
        words = *words != '\0' ? words + 1 : NULL;
    }
    return words;
}

bool hk_word_find(const char *words, const char *text, size_t len, uint64_t *number) {
    for (uint64_t i = 0; (words = hk_word_at(words, i != 0)) != NULL; i++)
        if (strcspn(words, "|") == len && memcmp(text, words, len) == 0) {
            *number = i;
            return true;
        }
    return false;
}

static const char *digits_of(uint64_t value, unsigned base, char *end) {
    *end = '\0';
    do
        *--end = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    return end;
}

/* One conversion; `s` follows the '%'. Returns its last character. */
static const char *convert(hk_line_t *line, const char *s, va_list *values) {
    char digits[24];
    const char *text;
    const bool left = *s == '-', prefix = *s == '#';
    const char with = *s == '0' ? '0' : ' ';
    uint64_t width = 0;
    size_t most = SIZE_MAX;
    s += left || prefix;
    if (*s == '*')
        width = (uint64_t)va_arg(*values, int), s++;
    else
        hk_parse(&s, &width);
    if (*s == '.')
        most = (size_t)va_arg(*values, int), s += 2;
    if (*s == 's') {
        text = va_arg(*values, const char *);
    } else {
        hk_assert(*s == 'l' && (s[1] == 'u' || s[1] == 'x'));
        text =
            digits_of(va_arg(*values, uint64_t), *++s == 'x' ? 16 : 10, digits + sizeof digits - 1);
        put(line, "0x", prefix ? 2 : 0);
    }
    size_t n = 0;
    while (n < most && text[n] != '\0')
        n++;
    if (left)
        put(line, text, n);
    for (size_t i = n; i < width; i++)
        put(line, &with, 1);
    if (!left)
        put(line, text, n);
    return s;
}

void hk_line_put_list(hk_line_t *line, const char *format, va_list *values) {
    for (const char *s = format; *s != '\0'; s++)
        if (*s == '%')
            s = convert(line, s + 1, values);
        else
            put(line, s, 1);
}

void hk_line_put(hk_line_t *line, const char *format, ...) {
    va_list values;
    va_start(values, format);
    hk_line_put_list(line, format, &values);
    va_end(values);
}

void hk_line_str(hk_line_t *line, const char *s) { put(line, s, strlen(s)); }

void hk_line_str_most(hk_line_t *line, const char *s, size_t n) {
    hk_line_put(line, "%.*s%s", (int)n, s, strlen(s) > n ? "..." : "");
}

void hk_line_json(hk_line_t *line, const char *s) {
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < 0x20)
            hk_line_put(line, "\\u%04lx", (uint64_t)(unsigned char)*s);
        else
            hk_line_put(line, *s == '"' || *s == '\\' ? "\\%.*s" : "%.*s", 1, s);
}

const char *hk_line_text(hk_line_t *line) {
    hk_assert(line->len < sizeof line->text);
    line->text[line->len] = '\0';
    return line->text;
}

#define LARGE ((uint64_t)1 << (SIGXFSZ - 1))
#define UNREAD ((uint64_t)1 << (SIGPIPE - 1))

/* If a file exceeds its size limit or a pipe has no reader, the system also sends a signal that
 * would end the process: it is blocked, and taken away if errno reports the case. */
typedef struct {
    bool held;
    uint64_t before, waiting; /* one bit each: blocked by the thread before; pending before */
} held_t;

static held_t hold_signals(void) {
    const uint64_t which = LARGE | UNREAD;
    held_t held = {0};
    held.held = HK_CALL(other, syscall(SYS_rt_sigprocmask, SIG_BLOCK, &which, &held.before,
                                       sizeof which)) == 0;
    if (held.held && (held.before & which) != 0)
        HK_CALL(other, syscall(SYS_rt_sigpending, &held.waiting, sizeof held.waiting));
    return held;
}

static void release_signals(const held_t *held, int error) {
    const uint64_t came = (error == EFBIG ? LARGE : error == EPIPE ? UNREAD : 0) & ~held->waiting;
    const struct timespec now = {0};
    if (!held->held)
        return;
    if (came != 0)
        HK_CALL(other, syscall(SYS_rt_sigtimedwait, &came, NULL, &now, sizeof came));
    HK_CALL(other, syscall(SYS_rt_sigprocmask, SIG_SETMASK, &held->before, NULL, sizeof came));
}

static atomic_int kept_stderr = -1; /* atomic: any thread; a duplicate */

/* Waits until a full pipe has room. False: its reader has used up its time; a later report waits
 * again. */
static HK_COLD bool wait_for_room(int fd) {
    enum { MOST_MS = 1000, ANEW_MS = 10 * MOST_MS };
    static _Atomic uint64_t since; /* atomic: any thread; ms */
    struct timespec now;
    HK_CALL(other, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now));
    const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    uint64_t first = hk_load_relaxed(&since);
    if (first == 0 || ms - first > ANEW_MS)
        hk_store_relaxed(&since, first = ms);
    if (ms - first >= MOST_MS)
        return false;
    const uint64_t left = MOST_MS - (ms - first);
    struct timespec most = {(time_t)(left / 1000), (long)(left % 1000 * 1000000)};
    struct pollfd what = {fd, POLLOUT, 0};
    const int said = HK_CALL(other, syscall(SYS_ppoll, &what, 1, &most, NULL, sizeof(uint64_t)));
    return said > 0 || (said < 0 && errno == EINTR);
}

/* 0 if the write is to be repeated, else the error. */
static int failure(int fd, int error) {
    const bool is_report =
        fd == STDOUT_FILENO || fd == STDERR_FILENO || fd == hk_load_relaxed(&kept_stderr);
    if (error == EINTR || (error == EAGAIN && is_report && wait_for_room(fd)))
        return 0;
    return error;
}

int hk_write_all(int fd, const void *bytes, size_t n) {
    const held_t held = hold_signals();
    int error = 0;
    for (const char *at = bytes; n != 0 && error == 0;) {
        const ssize_t done = HK_CALL(other, write(fd, at, n));
        if (done <= 0)
            error = done == 0 ? EIO : failure(fd, errno);
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    release_signals(&held, error);
    return error;
}

void hk_output_flush(hk_output_t *out) {
    if (out->error == 0)
        out->error = hk_write_all(out->fd, out->line.text, out->line.len);
    out->line.len = 0;
}

HK_COLD void hk_output_put(hk_output_t *out, const char *format, ...) {
    va_list values;
    if (out->line.len > sizeof out->line.text - HK_LONGEST_PIECE)
        hk_output_flush(out);
    va_start(values, format);
    hk_line_put_list(&out->line, format, &values);
    va_end(values);
    hk_assert(out->line.len < sizeof out->line.text - 1);
}

/* ---- files ---- */

int hk_open(const char *path, int flags, unsigned mode) {
    const bool may_wait = (flags & O_ACCMODE) == O_WRONLY; /* opening a pipe: for a reader */
    const int fd =
        HK_CALL(other, open(path, flags | O_CLOEXEC | (may_wait ? O_NONBLOCK : 0), mode));
    if (fd >= 0 && may_wait)
        HK_CALL(other, syscall(SYS_fcntl, fd, F_SETFL, flags & O_APPEND));
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int above = HK_CALL(other, syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    (void)HK_KEEP_ERRNO(HK_CALL(other, close(fd)));
    return above;
}

/* glibc's strerror may take locks; from 2.32 on there is one that does not. */
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 32)
#define strerror strerrordesc_np
#endif

const char *hk_error_text(int error) {
    const char *text = strerror(error);
    return text != NULL ? text : "an unknown error";
}

static _Atomic(const char *) folder; /* atomic: any thread; NULL: paths are as they are */

void hk_path_keep(const char *path) {
    static atomic_flag asked = ATOMIC_FLAG_INIT;
    static char folder_text[768]; /* a longer one would leave no room for paths */
    if (*path == '/' || atomic_flag_test_and_set(&asked))
        return;
    const int bytes =
        HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_getcwd, folder_text, sizeof folder_text)));
    if (bytes > 0 && *folder_text == '/')
        hk_store_release(&folder, folder_text);
}

bool hk_line_path(hk_line_t *line, const char *pattern, bool numbered) {
    enum { ROOM = 128 };
    const uint64_t self = HK_CALL(other, getpid());
    const char *in = *pattern != '/' ? hk_load_acquire(&folder) : NULL;
    if (in != NULL && strlen(in) + strlen(pattern) + ROOM < sizeof line->text - line->len)
        hk_line_put(line, "%s/", in); /* else try the present folder */
    for (const char *s = pattern; *s != '\0'; s++) {
        if (line->len > sizeof line->text - ROOM)
            return false;
        if (s[0] == '%' && s[1] == 'p') {
            hk_line_put(line, "%lu", self);
            numbered = false;
            s++;
        } else {
            put(line, s, 1);
        }
    }
    if (numbered)
        hk_line_put(line, ".%lu", self);
    line->text[line->len] = '\0';
    hk_assert(line->len <= sizeof line->text - ROOM / 2); /* for the suffix */
    return true;
}

void hk_line_write(hk_line_t *line, int fd) {
    hk_assert(line->len < sizeof line->text && fd >= 0); /* put() keeps this byte */
    line->text[line->len++] = '\n';
    (void)HK_KEEP_ERRNO(hk_write_all(fd, line->text, line->len));
    line->len = 0; /* a failure cannot be reported anywhere */
}

/* ---- stderr ---- */

static struct stat kept_file; /* const once there is a copy: the file that it refers to */

void hk_stderr_keep(void) {
    enum { ABOVE_THE_PROGRAMS = 64 };
    const int copy =
        HK_CALL(other, syscall(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, ABOVE_THE_PROGRAMS));
    if (copy < 0)
        return;
    if (HK_CALL(other, fstat(copy, &kept_file)) == 0)
        hk_store_relaxed(&kept_stderr, copy);
    else
        HK_CALL(other, close(copy));
}

bool hk_is_file(int fd, const struct stat *file) {
    struct stat now;
    return HK_CALL(other, fstat(fd, &now)) == 0 && now.st_dev == file->st_dev &&
           now.st_ino == file->st_ino;
}

int hk_stderr(void) {
    const int copy = hk_load_relaxed(&kept_stderr);
    if (HK_LIKELY(copy < 0))
        return STDERR_FILENO;
    const bool kept =
        HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_fcntl, STDERR_FILENO, F_GETFD)) < 0 &&
                      hk_is_file(copy, &kept_file));
    return kept ? copy : STDERR_FILENO;
}

void hk_stderr_forked(void) {
    const int copy = hk_load_relaxed(&kept_stderr);
    if (copy < 0)
        return;
    if (hk_is_file(copy, &kept_file))
        HK_CALL(other, close(copy));
    hk_store_relaxed(&kept_stderr, -1);
}

hk_lock_t hk_writing = HK_LOCK_INIT(HK_RANK_WRITING);

void hk_writing_forked(void) { hk_writing = (hk_lock_t)HK_LOCK_INIT(HK_RANK_WRITING); }

void hk_say(const char *format, ...) {
    hk_line_t line = {0};
    va_list values;
    va_start(values, format);
    hk_line_put_list(&line, format, &values);
    va_end(values);
    hk_line_write(&line, hk_stderr());
}

atomic_uint hk_on_fault;

static void put_fault(hk_line_t *line, const char *how, hk_fatal_t kind, const void *p) {
    static const char *const names[] = {
#define HK_FAULT(kind, words, doc) [HK_##kind] = (words),
#include "base/faults.def"
    };
    hk_assert((unsigned)kind < sizeof names / sizeof names[0]);
    hk_line_put(line, "%s%s: %#lx", how, names[kind], (uint64_t)(uintptr_t)p);
}

static _Noreturn void end(void) {
    if (hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_TRAP)
        __builtin_trap();
    abort();
}

_Noreturn HK_COLD void hk_fatal(hk_fatal_t kind, const void *p) {
    hk_line_t line = {0};
    put_fault(&line, "hakmem: fatal: ", kind, p);
    hk_line_write(&line, hk_stderr());
    end();
}

static bool goes_on(void) { return hk_load_relaxed(&hk_on_fault) == HK_ON_FAULT_REPORT; }

HK_COLD void hk_fault_say(hk_fatal_t kind, const void *p, size_t bytes, ptrdiff_t at,
                          size_t class_bytes, const char *claim) {
    hk_line_t line = {0};
    put_fault(&line, goes_on() ? "hakmem: error: " : "hakmem: fatal: ", kind, p);
    if (bytes != HK_NO_SIZE)
        hk_line_put(&line, ", a block of %lu byte%s", bytes, bytes == 1 ? "" : "s");
    if (at != HK_NOWHERE)
        hk_line_put(&line, ", at byte %s%lu", at < 0 ? "-" : "", (uint64_t)(at < 0 ? -at : at));
    hk_line_put(&line, "%s, in thread %lu", claim, (uint64_t)HK_CALL(other, syscall(SYS_gettid)));
    if (class_bytes != HK_NO_SIZE)
        hk_line_put(&line, ", size class %lu", class_bytes);
    hk_line_write(&line, hk_stderr());
    hk_count(faults, 1);
}

HK_COLD void hk_fault_end(void) {
    if (!goes_on())
        end();
}

#if HK_DEBUG
_Noreturn HK_COLD void hk_assert_failed(const char *what, const char *file, int line) {
    hk_say("hakmem: assertion failed: %s at %s:%lu", what, file, (uint64_t)line);
    abort();
}
#endif
