/* Wraps the functions that read, send, and tell names and states. */
#include "check.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef struct _IO_FILE stream_t;
typedef struct {
    int fd;
    short asked, told;
} polled_t;
#ifdef __GLIBC__
typedef int flags_t; /* of recvmmsg() and sendmmsg() */
#else
typedef unsigned flags_t;
#undef preadv64 /* musl has it, but as another word for preadv */
#undef pwrite64
#undef pwritev64
#endif

/* The array of parts is read here, so it is checked first. The system itself refuses NULL and too
 * many parts without reading. */
static void check_parts(const struct iovec *parts, size_t n) {
    if (parts == NULL || n > IOV_MAX)
        return;
    check(parts, n * sizeof *parts);
    for (size_t i = 0; i < n; i++)
        check(parts[i].iov_base, parts[i].iov_len);
}

static void check_message(const struct msghdr *message) {
    if (message == NULL)
        return;
    check(message->msg_name, message->msg_namelen);
    check(message->msg_control, message->msg_controllen);
    check_parts(message->msg_iov, (size_t)message->msg_iovlen);
}

/* Of more messages the system takes the first IOV_MAX. */
static void check_messages(const struct mmsghdr *messages, size_t n) {
    const size_t taken = messages != NULL ? at_most(n, IOV_MAX) : 0;
    check(messages, taken * sizeof *messages);
    for (size_t i = 0; i < taken; i++)
        check_message(&messages[i].msg_hdr);
}

/* A buffer that the system fills up to *length before it sets that. */
static void check_told(const void *to, const socklen_t *length) {
    if (to != NULL && length != NULL)
        check(to, *length);
}

/* Several parts. `told`: further parameters, then their names to pass on. */
#define PARTS(name, told, ...)                                                                     \
    CHECKED(ssize_t, name, (int fd, const struct iovec *parts, int n ALL told),                    \
            check_parts(parts, (size_t)n), (fd, parts, n, ##__VA_ARGS__), -1)
PARTS(readv, ())
PARTS(writev, ())
PARTS(preadv, (, off_t at), at)
PARTS(preadv64, (, off_t at), at)
PARTS(pwritev, (, off_t at), at)
PARTS(pwritev64, (, off_t at), at)
PARTS(preadv2, (, off_t at, int flags), at, flags)
PARTS(preadv64v2, (, off_t at, int flags), at, flags)
PARTS(pwritev2, (, off_t at, int flags), at, flags)
PARTS(pwritev64v2, (, off_t at, int flags), at, flags)

BOTH(ssize_t, read, (int fd, void *to, size_t n), check(to, n), (fd, to, n), -1)
CHECKED(ssize_t, recv, (int fd, void *to, size_t n, int flags), check(to, n), (fd, to, n, flags),
        -1)
CHECKED(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags), check(to, n),
        (fd, to, n, room, flags), -1)
CHECKED(ssize_t, recvfrom,
        (int fd, void *to, size_t n, int flags, struct sockaddr *who, socklen_t *length),
        (check(to, n), check_told(who, length)), (fd, to, n, flags, who, length), -1)
CHECKED(ssize_t, __recvfrom_chk,
        (int fd, void *to, size_t n, size_t room, int flags, struct sockaddr *who,
         socklen_t *length),
        (check(to, n), check_told(who, length)), (fd, to, n, room, flags, who, length), -1)
CHECKED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), check_message(message),
        (fd, message, flags), -1)

BOTH(ssize_t, pread, (int fd, void *to, size_t n, off_t at), check(to, n), (fd, to, n, at), -1)
BOTH(ssize_t, pread64, (int fd, void *to, size_t n, off_t at), check(to, n), (fd, to, n, at), -1)

CHECKED(int, recvmmsg,
        (int fd, struct mmsghdr *messages, unsigned n, flags_t flags, struct timespec *timeout),
        check_messages(messages, n), (fd, messages, n, flags, timeout), -1)
BOTH(int, poll, (polled_t * of, size_t n, int timeout), check(of, times(n, sizeof *of)),
     (of, n, timeout), -1)
BOTH(int, ppoll, (polled_t * of, size_t n, source_t timeout, source_t mask),
     check(of, times(n, sizeof *of)), (of, n, timeout, mask), -1)
CHECKED(int, accept, (int fd, struct sockaddr *who, socklen_t *length), check_told(who, length),
        (fd, who, length), -1)
CHECKED(int, accept4, (int fd, struct sockaddr *who, socklen_t *length, int flags),
        check_told(who, length), (fd, who, length, flags), -1)
CHECKED(int, getsockname, (int fd, struct sockaddr *who, socklen_t *length),
        check_told(who, length), (fd, who, length), -1)
CHECKED(int, getpeername, (int fd, struct sockaddr *who, socklen_t *length),
        check_told(who, length), (fd, who, length), -1)
CHECKED(int, getsockopt, (int fd, int level, int name, void *to, socklen_t *length),
        check_told(to, length), (fd, level, name, to, length), -1)
/* Output reads memory: beyond a block it would leak other data. */
CHECKED(ssize_t, write, (int fd, source_t from, size_t n), check(from, n), (fd, from, n), -1)
CHECKED(ssize_t, pwrite, (int fd, source_t from, size_t n, off_t at), check(from, n),
        (fd, from, n, at), -1)
CHECKED(ssize_t, pwrite64, (int fd, source_t from, size_t n, off_t at), check(from, n),
        (fd, from, n, at), -1)
CHECKED(ssize_t, send, (int fd, source_t from, size_t n, int flags), check(from, n),
        (fd, from, n, flags), -1)
CHECKED(ssize_t, sendto,
        (int fd, source_t from, size_t n, int flags, const struct sockaddr *whom, socklen_t length),
        (check(from, n), check(whom, length)), (fd, from, n, flags, whom, length), -1)
CHECKED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), check_message(message),
        (fd, message, flags), -1)
CHECKED(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, flags_t flags),
        check_messages(messages, n), (fd, messages, n, flags), -1)

CHECKED(ssize_t, getrandom, (void *to, size_t n, unsigned flags), check(to, n), (to, n, flags), -1)
CHECKED(int, getentropy, (void *to, size_t n), check(to, n), (to, n), -1)

/* Names and texts, checked against their stated length, even if less is written. Without one,
 * PATH_MAX is promised. */
BOTH(char *, getcwd, (char *to, size_t n), check(to, n), (to, n), NULL)
BOTH(char *, realpath, (const char *path, char *to), check(to, PATH_MAX), (path, to), NULL)
BOTH(ssize_t, readlink, (const char *path, char *to, size_t n), check(to, n), (path, to, n), -1)
BOTH(ssize_t, readlinkat, (int folder, const char *path, char *to, size_t n), check(to, n),
     (folder, path, to, n), -1)
BOTH(int, gethostname, (char *to, size_t n), check(to, n), (to, n), -1)
BOTH(int, getdomainname, (char *to, size_t n), check(to, n), (to, n), -1)
BOTH(int, getlogin_r, (char *to, size_t n), check(to, n), (to, n), -1)
BOTH(int, ttyname_r, (int fd, char *to, size_t n), check(to, n), (fd, to, n), -1)
BOTH(int, ptsname_r, (int fd, char *to, size_t n), check(to, n), (fd, to, n), -1)
BOTH(size_t, confstr, (int name, char *to, size_t n), check(to, n), (name, to, n), 0)
BOTH(int, getgroups, (int n, gid_t *to), check(to, times(not_below_0(n), sizeof *to)), (n, to), -1)
CHECKED(const char *, inet_ntop, (int family, source_t from, char *to, socklen_t n), check(to, n),
        (family, from, to, n), NULL)
OWN_CHK(const char *, inet_ntop, (int family, source_t from, char *to, socklen_t n), (void)0,
        inet_ntop(family, from, to, n))
/* Also with an explicit locale, `told` as above; the C++ library calls these by their older names. */
#define TEXTS(strftime, wcsftime, strxfrm, wcsxfrm, told, ...)                                     \
    CHECKED(size_t, strftime, (char *to, size_t n, const char *format, source_t when ALL told),    \
            check(to, n), (to, n, format, when, ##__VA_ARGS__), 0)                                 \
    CHECKED(size_t, wcsftime,                                                                      \
            (wchar_t * to, size_t n, const wchar_t *format, source_t when ALL told),               \
            check(to, wide(n)), (to, n, format, when, ##__VA_ARGS__), 0)                           \
    CHECKED(size_t, strxfrm, (char *to, const char *from, size_t n ALL told),                      \
            (check(to, n), strlen(from)), (to, from, n, ##__VA_ARGS__), 0)                         \
    CHECKED(size_t, wcsxfrm, (wchar_t * to, const wchar_t *from, size_t n ALL told),               \
            (check(to, wide(n)), wcslen(from)), (to, from, n, ##__VA_ARGS__), 0)
TEXTS(strftime, wcsftime, strxfrm, wcsxfrm, ())
TEXTS(strftime_l, wcsftime_l, strxfrm_l, wcsxfrm_l, (, void *locale), locale)
TEXTS(__strftime_l, __wcsftime_l, __strxfrm_l, __wcsxfrm_l, (, void *locale), locale)
CHECKED(int, __xpg_strerror_r, (int error, char *to, size_t n), check(to, n), (error, to, n), -1)
#ifdef __GLIBC__ /* elsewhere strerror_r is the one above */
CHECKED(char *, strerror_r, (int error, char *to, size_t n), check(to, n), (error, to, n), to)
#endif

/* Each with and without the stream's lock. */
#define STREAM(fread, __fread_chk, fgets, __fgets_chk, fwrite, fputs)                              \
    CHECKED(int, fputs, (const char *s, stream_t *stream), strlen(s), (s, stream), -1)             \
    CHECKED(size_t, fwrite, (source_t from, size_t size, size_t n, stream_t * stream),             \
            check(from, times(size, n)), (from, size, n, stream), 0)                               \
    CHECKED(size_t, fread, (void *to, size_t size, size_t n, stream_t *stream),                    \
            check(to, times(size, n)), (to, size, n, stream), 0)                                   \
    CHECKED(size_t, __fread_chk, (void *to, size_t room, size_t size, size_t n, stream_t *stream), \
            check(to, times(size, n)), (to, room, size, n, stream), 0)                             \
    CHECKED(char *, fgets, (char *to, int n, stream_t *stream), check(to, not_below_0(n)),         \
            (to, n, stream), NULL)                                                                 \
    CHECKED(char *, __fgets_chk, (char *to, size_t room, int n, stream_t *stream),                 \
            check(to, not_below_0(n)), (to, room, n, stream), NULL)
#define WIDE_STREAM(fgetws, __fgetws_chk, fputws)                                                  \
    CHECKED(int, fputws, (const wchar_t *s, stream_t *stream), wcslen(s), (s, stream), -1)         \
    CHECKED(wchar_t *, fgetws, (wchar_t * to, int n, stream_t *stream),                            \
            check(to, wide(not_below_0(n))), (to, n, stream), NULL)                                \
    CHECKED(wchar_t *, __fgetws_chk, (wchar_t * to, size_t room, int n, stream_t *stream),         \
            check(to, wide(not_below_0(n))), (to, room, n, stream), NULL)
STREAM(fread, __fread_chk, fgets, __fgets_chk, fwrite, fputs)
STREAM(fread_unlocked, __fread_unlocked_chk, fgets_unlocked, __fgets_unlocked_chk, fwrite_unlocked,
       fputs_unlocked)
WIDE_STREAM(fgetws, __fgetws_chk, fputws)
WIDE_STREAM(fgetws_unlocked, __fgetws_unlocked_chk, fputws_unlocked)
CHECKED(int, puts, (const char *s), strlen(s), (s), -1)
