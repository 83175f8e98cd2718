/* libhakmem_check.so: wraps the C library's functions that write or read memory by a length, and
 * first checks that the length stays inside the block. Preloaded beside libhakmem.so. Without that,
 * or for pointers into no block of hakmem's, the functions are unchanged.
 *
 *   LD_PRELOAD=libhakmem_check.so:libhakmem.so HAKMEM_PROFILE=secure program
 *
 * All next functions are found at the start, by dlsym(), which takes the loader's lock and clears
 * the error of dlerror(): neither may happen later. A wrapper that is called earlier finds its next
 * function then. While dlsym() runs, which may itself copy, bytes are copied one by one. */
#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "hakmem/hakmem.h"

#pragma GCC diagnostic ignored                                                                     \
    "-Wmissing-prototypes" /* attributes and macros in their headers differ */
#define EXPORT __attribute__((visibility("default")))

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
void *memchr(const void *s, int c, size_t n);

extern __typeof__(hak_check_range) hak_check_range __attribute__((weak));
extern __typeof__(hak_room) hak_room __attribute__((weak));

static void check(const void *p, size_t n) {
    if (n != 0 && hak_check_range != NULL)
        hak_check_range(p, n);
}

/* n * size; SIZE_MAX if that overflows. */
static size_t times(size_t n, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes;
}

static size_t wide(size_t n) { return times(n, sizeof(wchar_t)); }
static size_t at_most(size_t a, size_t b) { return a < b ? a : b; }
static size_t not_below_0(ssize_t n) { return n > 0 ? (size_t)n : 0; }

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

/* The rest of a text to convert, or of the room for it. */
static void check_left(char *const *at, const size_t *left) {
    if (at != NULL && *at != NULL)
        check(*at, *left);
}

/* The bytes that memccpy() copies. */
static size_t up_to(const char *from, int c, size_t n) {
    const char *end = memchr(from, c, n);
    return end != NULL ? (size_t)(end - from) + 1 : n;
}

/* A wrapped function's next one, in a section of all of them. NULL: not found yet, or none. The
 * section has whole pages of its own: it begins with one, and its last subsection fills up the
 * last. */
#define PAGE 4096
#define ALIGN(subsection)                                                                          \
    __asm__(".pushsection hk_next, " #subsection ", \"aw\", %progbits\n"                           \
            ".balign 4096\n"                                                                       \
            ".popsection");
ALIGN(0)
ALIGN(1)
typedef struct {
    const char *name;
    _Atomic(void *) found; /* atomic: all threads find the same */
} next_t;
extern next_t first[] __asm__("__start_hk_next") __attribute__((visibility("hidden")));
extern next_t last[] __asm__("__stop_hk_next") __attribute__((visibility("hidden")));

static atomic_bool started;  /* atomic: set once, with all of them found */
static atomic_uint searches; /* atomic: threads that may still write to a next_t */
static _Thread_local bool searching __attribute__((tls_model("initial-exec")));

/* NULL during a search on this thread, and after the start. */
static __attribute__((noinline, cold)) void *search(next_t *next) {
    void *function = NULL;
    if (searching || started)
        return NULL;
    searches++;
    if (!started) {
        searching = true;
        function = dlsym(RTLD_NEXT, next->name);
        searching = false;
        next->found = function;
    }
    searches--;
    return function;
}

static void *next_of(next_t *next) {
    void *function = next->found;
    return function != NULL ? function : search(next);
}

/* Makes the section read-only, unless a thread still writes to it. On larger pages it would share a
 * page with other data. */
static void protect(void) {
    const size_t bytes = (size_t)((char *)last - (char *)first) / PAGE * PAGE;
    if (searches == 0 && bytes != 0 && (uintptr_t)first % PAGE == 0 && getauxval(AT_PAGESZ) == PAGE)
        mprotect(first, bytes, PROT_READ);
}

/* Not every C library has all functions; that must not leave an error for dlerror(). */
__attribute__((constructor)) static void start(void) {
    for (next_t *next = first; next < last && next->name != NULL; next++)
        next_of(next);
    started = true;
    protect();
    dlerror();
}

/* Keeps compilers from turning the loops below into calls of memcpy and the like. */
#define ONE_BY_ONE __asm__ volatile("" ::: "memory")

static void *copied_down(void *target, const void *source, size_t n) {
    char *to = target;
    const char *from = source;
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        ONE_BY_ONE;
    }
    return target;
}

static void *copied(char *to, const char *from, size_t n) {
    if (to <= from)
        return copied_down(to, from, n);
    while (n-- > 0) {
        to[n] = from[n];
        ONE_BY_ONE;
    }
    return to;
}

static void *filled(char *to, int c, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = (char)c;
        ONE_BY_ONE;
    }
    return to;
}

/* The next function of this name, with its type. */
#define NEXT(function)                                                                             \
    ({                                                                                             \
        static next_t next_one __attribute__((section("hk_next"))) = {.name = #function};          \
        (__typeof__(&function))next_of(&next_one);                                                 \
    })

/* A function that checks first; its value is `otherwise` while the next one is not found. */
#define CHECKED(type, name, parameters, checks, call, otherwise)                                   \
    EXPORT type name parameters {                                                                  \
        checks;                                                                                    \
        __typeof__(&name) next = NEXT(name);                                                       \
        return next != NULL ? next call : (otherwise);                                             \
    }

/* A function and its fortified form, which the compiler calls if it knows the target's size. That
 * form has checked the length only against what the compiler knew. */
#define ALL(...) __VA_ARGS__
#define BOTH(type, name, parameters, checks, call, otherwise)                                      \
    CHECKED(type, name, parameters, checks, call, otherwise)                                       \
    CHECKED(type, __##name##_chk, (ALL parameters, size_t room), checks, (ALL call, room),         \
            otherwise)

/* The same for a function that not every C library has, implemented here. It is not looked up: a
 * failed search allocates, which a program with its own malloc may not be ready for before it has
 * begun. */
#define OWN_CHK(type, name, parameters, checks, result)                                            \
    EXPORT type __##name##_chk(ALL parameters, size_t room) {                                      \
        if (n > room)                                                                              \
            __chk_fail != NULL ? __chk_fail() : __builtin_trap();                                  \
        checks;                                                                                    \
        return result;                                                                             \
    }
#define OWN(type, name, parameters, checks, result)                                                \
    EXPORT type name parameters {                                                                  \
        checks;                                                                                    \
        return result;                                                                             \
    }                                                                                              \
    OWN_CHK(type, name, parameters, checks, result)

/* What a fortified C library calls if a length exceeds what the compiler knew. */
extern __attribute__((noreturn, weak)) void __chk_fail(void);

typedef const void *source_t;

/* A text must end within its block. Before all functions are found this one does without:
 * libhakmem.so measures names before anything may be looked up. */
#define LENGTH(function, parameters, call, most)                                                   \
    EXPORT size_t function parameters {                                                            \
        static next_t next_one __attribute__((section("hk_next"))) = {.name = #function};          \
        next_t *one = &next_one;                                                                   \
        __asm__("" : "+r"(one)); /* it is written to by way of the section */                      \
        size_t(*next) parameters = one->found;                                                     \
        size_t n = 0;                                                                              \
        if (next != NULL)                                                                          \
            n = next call;                                                                         \
        while (next == NULL && n < (most) && s[n] != 0) {                                          \
            n++;                                                                                   \
            ONE_BY_ONE;                                                                            \
        }                                                                                          \
        check(s, times(at_most(n + 1, most), sizeof *s));                                          \
        return n;                                                                                  \
    }
LENGTH(strlen, (const char *s), (s), SIZE_MAX)
LENGTH(strnlen, (const char *s, size_t most), (s, most), most)
LENGTH(wcslen, (const wchar_t *s), (s), SIZE_MAX)
LENGTH(wcsnlen, (const wchar_t *s, size_t most), (s, most), most)

BOTH(void *, memcpy, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
     (to, from, n), copied_down(to, from, n))
BOTH(void *, mempcpy, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
     (to, from, n), (char *)copied_down(to, from, n) + n)
BOTH(void *, memmove, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
     (to, from, n), copied(to, from, n))
BOTH(void *, memset, (void *to, int c, size_t n), check(to, n), (to, c, n), filled(to, c, n))

/* Texts of bytes and of wide characters. strlcpy() and strlcat() are implemented here. */
#define SO_MANY(n) times(n, sizeof *to)
#define TEXTS(char_t, strlen, strnlen, strcpy, stpcpy, strcat, strncpy, stpncpy, strncat, strdup,  \
              strlcpy, strlcat)                                                                    \
    BOTH(char_t *, strcpy, (char_t * to, const char_t *from),                                      \
         check(to, SO_MANY(strlen(from) + 1)), (to, from),                                         \
         copied_down(to, from, SO_MANY(strlen(from) + 1)))                                         \
    BOTH(char_t *, stpcpy, (char_t * to, const char_t *from),                                      \
         check(to, SO_MANY(strlen(from) + 1)), (to, from),                                         \
         (char_t *)copied_down(to, from, SO_MANY(strlen(from) + 1)) + strlen(from))                \
    BOTH(char_t *, strcat, (char_t * to, const char_t *from),                                      \
         check(to, SO_MANY(strlen(to) + strlen(from) + 1)), (to, from),                            \
         (copied_down(to + strlen(to), from, SO_MANY(strlen(from) + 1)), to))                      \
    BOTH(char_t *, strncpy, (char_t * to, const char_t *from, size_t n),                           \
         (check(to, SO_MANY(n)), strnlen(from, n)), (to, from, n), to)                             \
    BOTH(char_t *, stpncpy, (char_t * to, const char_t *from, size_t n),                           \
         (check(to, SO_MANY(n)), strnlen(from, n)), (to, from, n), to)                             \
    BOTH(char_t *, strncat, (char_t * to, const char_t *from, size_t n),                           \
         check(to, SO_MANY(strlen(to) + strnlen(from, n) + 1)), (to, from, n), to)                 \
    CHECKED(char_t *, strdup, (const char_t *s), strlen(s), (s), NULL)                             \
    static size_t own_##strlcpy(char_t *to, const char_t *from, size_t n) {                        \
        const size_t length = strlen(from), copied = n != 0 ? at_most(length, n - 1) : 0;          \
        memcpy(to, from, SO_MANY(copied));                                                         \
        if (n != 0)                                                                                \
            to[copied] = 0;                                                                        \
        return length;                                                                             \
    }                                                                                              \
    OWN(size_t, strlcpy, (char_t * to, const char_t *from, size_t n),                              \
        check(to, SO_MANY(at_most(strlen(from) + 1, n))), own_##strlcpy(to, from, n))              \
    OWN(size_t, strlcat, (char_t * to, const char_t *from, size_t n),                              \
        const size_t before = strnlen(to, n);                                                      \
        check(to, SO_MANY(at_most(before + strlen(from) + 1, n))),                                 \
        before + own_##strlcpy(to + before, from, n - before))
TEXTS(char, strlen, strnlen, strcpy, stpcpy, strcat, strncpy, stpncpy, strncat, strdup, strlcpy,
      strlcat)
TEXTS(wchar_t, wcslen, wcsnlen, wcscpy, wcpcpy, wcscat, wcsncpy, wcpncpy, wcsncat, wcsdup, wcslcpy,
      wcslcat)
CHECKED(char *, strndup, (const char *s, size_t n), strnlen(s, n), (s, n), NULL)
CHECKED(void *, memccpy, (void *to, source_t from, int c, size_t n),
        (check(to, up_to(from, c, n)), check(from, up_to(from, c, n))), (to, from, c, n), to)

BOTH(wchar_t *, wmemcpy, (wchar_t * to, const wchar_t *from, size_t n),
     (check(to, wide(n)), check(from, wide(n))), (to, from, n), to)
BOTH(wchar_t *, wmempcpy, (wchar_t * to, const wchar_t *from, size_t n),
     (check(to, wide(n)), check(from, wide(n))), (to, from, n), to)
BOTH(wchar_t *, wmemmove, (wchar_t * to, const wchar_t *from, size_t n),
     (check(to, wide(n)), check(from, wide(n))), (to, from, n), to)
BOTH(wchar_t *, wmemset, (wchar_t * to, wchar_t c, size_t n), check(to, wide(n)), (to, c, n), to)

/* Conversions between the two, of at most n; the source has another unit, so it is not checked. */
BOTH(size_t, mbstowcs, (wchar_t * to, source_t from, size_t n), check(to, wide(n)), (to, from, n),
     0)
BOTH(size_t, wcstombs, (char *to, source_t from, size_t n), check(to, n), (to, from, n), 0)
BOTH(size_t, mbsrtowcs, (wchar_t * to, source_t *from, size_t n, void *state), check(to, wide(n)),
     (to, from, n, state), 0)
BOTH(size_t, wcsrtombs, (char *to, source_t *from, size_t n, void *state), check(to, n),
     (to, from, n, state), 0)
BOTH(size_t, mbsnrtowcs, (wchar_t * to, source_t *from, size_t most, size_t n, void *state),
     check(to, wide(n)), (to, from, most, n, state), 0)
BOTH(size_t, wcsnrtombs, (char *to, source_t *from, size_t most, size_t n, void *state),
     check(to, n), (to, from, most, n, state), 0)
CHECKED(size_t, iconv, (void *how, char **from, size_t *unread, char **to, size_t *room),
        (check_left(from, unread), check_left(to, room)), (how, from, unread, to, room), (size_t)-1)

/* The length of one character is known only afterwards: it is converted into a buffer, then
 * copied. */
#define CHARACTER(type, name, parameters, call)                                                    \
    EXPORT type name parameters {                                                                  \
        char bytes[MB_LEN_MAX], *aside = to != NULL ? bytes : NULL;                                \
        __typeof__(&name) next = NEXT(name);                                                       \
        const type n = next != NULL ? next call : (type)-1;                                        \
        if (aside != NULL && n != (type)-1)                                                        \
            memcpy(to, bytes, (size_t)n);                                                          \
        return n;                                                                                  \
    }
CHARACTER(size_t, wcrtomb, (char *to, wchar_t c, void *state), (aside, c, state))
CHARACTER(size_t, __wcrtomb_chk, (char *to, wchar_t c, void *state, size_t room),
          (aside, c, state, room))
CHARACTER(int, wctomb, (char *to, wchar_t c), (aside, c))
CHARACTER(int, __wctomb_chk, (char *to, wchar_t c, size_t room), (aside, c, room))

EXPORT void bcopy(source_t from, void *to, size_t n) { memmove(to, from, n); }
EXPORT void bzero(void *to, size_t n) { memset(to, 0, n); }
EXPORT void explicit_bzero(void *to, size_t n) { memset(to, 0, n); }
EXPORT void __explicit_bzero_chk(void *to, size_t n, size_t room) { __memset_chk(to, 0, n, room); }

static size_t even(ssize_t n) { return not_below_0(n) & ~(size_t)1; }
EXPORT void swab(source_t from, void *to, ssize_t n) {
    check(to, even(n)), check(from, even(n));
    __typeof__(&swab) next = NEXT(swab);
    if (next != NULL)
        next(from, to, n);
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
CHECKED(size_t, strftime, (char *to, size_t n, const char *format, source_t when), check(to, n),
        (to, n, format, when), 0)
CHECKED(size_t, wcsftime, (wchar_t * to, size_t n, const wchar_t *format, source_t when),
        check(to, wide(n)), (to, n, format, when), 0)
CHECKED(size_t, strxfrm, (char *to, const char *from, size_t n), (check(to, n), strlen(from)),
        (to, from, n), 0)
CHECKED(size_t, wcsxfrm, (wchar_t * to, const wchar_t *from, size_t n),
        (check(to, wide(n)), wcslen(from)), (to, from, n), 0)
/* With an explicit locale; the C++ library calls these by their older names. */
#define BY_LOCALE(strftime_l, wcsftime_l, strxfrm_l, wcsxfrm_l)                                    \
    CHECKED(size_t, strftime_l,                                                                    \
            (char *to, size_t n, const char *format, source_t when, void *locale), check(to, n),   \
            (to, n, format, when, locale), 0)                                                      \
    CHECKED(size_t, wcsftime_l,                                                                    \
            (wchar_t * to, size_t n, const wchar_t *format, source_t when, void *locale),          \
            check(to, wide(n)), (to, n, format, when, locale), 0)                                  \
    CHECKED(size_t, strxfrm_l, (char *to, const char *from, size_t n, void *locale),               \
            (check(to, n), strlen(from)), (to, from, n, locale), 0)                                \
    CHECKED(size_t, wcsxfrm_l, (wchar_t * to, const wchar_t *from, size_t n, void *locale),        \
            (check(to, wide(n)), wcslen(from)), (to, from, n, locale), 0)
BY_LOCALE(strftime_l, wcsftime_l, strxfrm_l, wcsxfrm_l)
BY_LOCALE(__strftime_l, __wcsftime_l, __strxfrm_l, __wcsxfrm_l)
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

/* ---- printing: the text's length is known only by printing ---- */

int vsnprintf(char *to, size_t n, const char *format, va_list arguments);
int __vsnprintf_chk(char *to, size_t n, int flag, size_t stated, const char *format,
                    va_list arguments);
enum { UNFORTIFIED = -1 };

static int print_at_most(char *to, size_t n, int flag, size_t stated, const char *format,
                         va_list arguments) {
    if (flag != UNFORTIFIED) {
        __typeof__(&__vsnprintf_chk) next = NEXT(__vsnprintf_chk);
        return next != NULL ? next(to, n, flag, stated, format, arguments) : -1;
    }
    __typeof__(&vsnprintf) next = NEXT(vsnprintf);
    return next != NULL ? next(to, n, format, arguments) : -1;
}

/* First prints into the room that the block has. If the text does not fit there, and the program's
 * bound n would let it overrun the block, reports a fault; if faults are only reported, prints as
 * asked for. The fortified form's own checks, of `stated` and of the format, are left to it. */
static int print(char *to, size_t n, int flag, size_t stated, const char *format,
                 va_list arguments) {
    const size_t room = n != 0 && hak_room != NULL ? hak_room(to) : SIZE_MAX;
    va_list again;
    va_copy(again, arguments);
    const size_t most = n <= stated ? at_most(n, room) : n;
    const int length = print_at_most(to, most, flag, stated, format, again);
    va_end(again);
    if (n <= room || length < 0 || (size_t)length < room)
        return length;
    check(to, at_most((size_t)length + 1, n));
    return print_at_most(to, n, flag, stated, format, arguments);
}

EXPORT int vsnprintf(char *to, size_t n, const char *format, va_list arguments) {
    return print(to, n, UNFORTIFIED, SIZE_MAX, format, arguments);
}

EXPORT int __vsnprintf_chk(char *to, size_t n, int flag, size_t stated, const char *format,
                           va_list arguments) {
    return print(to, n, flag, stated, format, arguments);
}

/* Without a bound, the text is first printed without a target: it may read its own target. */
static void check_print(char *to, int flag, const char *format, va_list arguments) {
    va_list again;
    if (hak_room == NULL || hak_room(to) == SIZE_MAX)
        return;
    va_copy(again, arguments);
    const int length = print_at_most(NULL, 0, flag, 0, format, again);
    va_end(again);
    if (length >= 0)
        check(to, (size_t)length + 1);
}

CHECKED(int, vsprintf, (char *to, const char *format, va_list arguments),
        check_print(to, UNFORTIFIED, format, arguments), (to, format, arguments), -1)
CHECKED(int, __vsprintf_chk,
        (char *to, int flag, size_t room, const char *format, va_list arguments),
        check_print(to, flag, format, arguments), (to, flag, room, format, arguments), -1)

/* Wide characters are checked against the stated length: such a function does not return the length
 * of a text that does not fit. */
CHECKED(int, vswprintf, (wchar_t * to, size_t n, const wchar_t *format, va_list arguments),
        check(to, wide(n)), (to, n, format, arguments), -1)
CHECKED(int, __vswprintf_chk,
        (wchar_t * to, size_t n, int flag, size_t room, const wchar_t *format, va_list arguments),
        check(to, wide(n)), (to, n, flag, room, format, arguments), -1)

#define PRINTING(name, parameters, call)                                                           \
    EXPORT int name parameters {                                                                   \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        const int length = call;                                                                   \
        va_end(arguments);                                                                         \
        return length;                                                                             \
    }

PRINTING(snprintf, (char *to, size_t n, const char *format, ...),
         vsnprintf(to, n, format, arguments))
PRINTING(__snprintf_chk, (char *to, size_t n, int flag, size_t room, const char *format, ...),
         __vsnprintf_chk(to, n, flag, room, format, arguments))
PRINTING(sprintf, (char *to, const char *format, ...), vsprintf(to, format, arguments))
PRINTING(__sprintf_chk, (char *to, int flag, size_t room, const char *format, ...),
         __vsprintf_chk(to, flag, room, format, arguments))
PRINTING(swprintf, (wchar_t * to, size_t n, const wchar_t *format, ...),
         vswprintf(to, n, format, arguments))
PRINTING(__swprintf_chk,
         (wchar_t * to, size_t n, int flag, size_t room, const wchar_t *format, ...),
         __vswprintf_chk(to, n, flag, room, format, arguments))
