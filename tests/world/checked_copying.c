// Each function that libhakmem_check.so stands before does its work on a block that is just long enough, and
// ends the process before it writes beyond one that is a byte shorter. So does the form of it that a compiler
// calls which knows how large a target is, here with the least that it may know.
#include <arpa/inet.h>
#include <fcntl.h>
#include <iconv.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <wchar.h>

#include "process.h"

#define BYTES ((size_t)40)
#define WIDE (BYTES / sizeof(wchar_t))
static const char text[BYTES] = "as many bytes as the block has and no w";
static const char longer[] = "more bytes than the block has, which is cut";
static const wchar_t wide[WIDE] = L"in words.", wider[] = L"in more words than it has";
static wchar_t elsewhere[WIDE];

/* Not every C library has them: then these are libhakmem_check.so's own. */
__attribute__((weak)) size_t strlcpy(char *to, const char *from, size_t n);
__attribute__((weak)) size_t strlcat(char *to, const char *from, size_t n);
__attribute__((weak)) size_t __strlcpy_chk(char *to, const char *from, size_t n, size_t room);
__attribute__((weak)) size_t __strlcat_chk(char *to, const char *from, size_t n, size_t room);
__attribute__((weak)) size_t wcslcpy(wchar_t *to, const wchar_t *from, size_t n);
__attribute__((weak)) size_t wcslcat(wchar_t *to, const wchar_t *from, size_t n);
__attribute__((weak)) size_t __wcslcpy_chk(wchar_t *to, const wchar_t *from, size_t n, size_t room);
__attribute__((weak)) size_t __wcslcat_chk(wchar_t *to, const wchar_t *from, size_t n, size_t room);
__attribute__((weak)) const char *__inet_ntop_chk(int family, const void *from, char *to,
                                                  socklen_t n, size_t room);

/* A descriptor from which the text can be read. */
static int source(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair: %s", strerror(errno));
    CHECK(write(ends[0], text, BYTES) == BYTES, "write: %s", strerror(errno));
    close(ends[0]);
    return ends[1];
}

static int sink(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair: %s", strerror(errno));
    return ends[1];
}

/* One where somebody waits to be let in. */
static int asked(void) {
    const int here = socket(AF_UNIX, SOCK_STREAM, 0), there = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;
    CHECK(bind(here, (void *)&name, sizeof name.sun_family) == 0 && listen(here, 1) == 0 &&
              getsockname(here, (void *)&name, &length) == 0 &&
              connect(there, (void *)&name, length) == 0,
          "connect: %s", strerror(errno));
    return here;
}

static int file(void) {
    FILE *made = tmpfile();
    CHECK(made != NULL && fwrite(text, 1, BYTES, made) == BYTES && fflush(made) == 0, "tmpfile");
    rewind(made);
    return fileno(made);
}

__attribute__((format(printf, 2, 0))) static void printed(char *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsprintf(to, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 2, 0))) static void printed_to(char *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to, 2 * BYTES, format, arguments);
    va_end(arguments);
}

/* Makes a block a text that fills it, wide or not; one that is shorter than it should be is not ended. */
static void *texted(char *to) {
    memset(to, 'y', sizeof(wchar_t));
    if (malloc_usable_size(to) >= BYTES)
        memset(to + BYTES - sizeof(wchar_t), 0, sizeof(wchar_t));
    return to;
}

static iconv_t converter(void) {
    const iconv_t how = iconv_open("UTF-8", "ASCII");
    CHECK(how != (iconv_t)-1, "iconv_open: %s", strerror(errno));
    return how;
}

static locale_t plain(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* A terminal of our own. */
static int terminal_master(void) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && unlockpt(master) == 0, "posix_openpt: %s", strerror(errno));
    return master;
}

static int terminal(void) {
    const int master = terminal_master();
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0, "open: %s", strerror(errno));
    return slave;
}

static const struct tm when = {.tm_year = 126, .tm_mday = 1};

/* The last argument of the second form is what the compiler knows. */
#define BOTH(F)                                                                                    \
    F(memcpy, to, text, BYTES)                                                                     \
    F(mempcpy, to, text, BYTES)                                                                    \
    F(memmove, to, text, BYTES)                                                                    \
    F(memset, to, 'x', BYTES)                                                                      \
    F(explicit_bzero, to, BYTES)                                                                   \
    F(strcpy, to, text)                                                                            \
    F(stpcpy, to, text)                                                                            \
    F(strncpy, to, text, BYTES)                                                                    \
    F(stpncpy, to, text, BYTES)                                                                    \
    F(strcat, to, text)                                                                            \
    F(strncat, to, text, 2 * BYTES)                                                                \
    F(wmemcpy, words, wide, WIDE)                                                                  \
    F(wmempcpy, words, wide, WIDE)                                                                 \
    F(wmemmove, words, wide, WIDE)                                                                 \
    F(wmemset, words, L'x', WIDE)                                                                  \
    F(wcscpy, words, wide)                                                                         \
    F(wcpcpy, words, wide)                                                                         \
    F(wcsncpy, words, wide, WIDE)                                                                  \
    F(wcpncpy, words, wide, WIDE)                                                                  \
    F(wcscat, words, wide)                                                                         \
    F(wcsncat, words, wide, 2 * WIDE)                                                              \
    F(mbstowcs, words, text, WIDE)                                                                 \
    F(wcstombs, to, wide, BYTES)                                                                   \
    F(mbsrtowcs, words, &(const char *){text}, WIDE, &(mbstate_t){0})                              \
    F(wcsrtombs, to, &(const wchar_t *){wide}, BYTES, &(mbstate_t){0})                             \
    F(mbsnrtowcs, words, &(const char *){text}, BYTES, WIDE, &(mbstate_t){0})                      \
    F(wcsnrtombs, to, &(const wchar_t *){wide}, WIDE, BYTES, &(mbstate_t){0})                      \
    F(read, source(), to, BYTES)                                                                   \
    F(pread, file(), to, BYTES, (off_t)0)                                                          \
    F(pread64, file(), to, BYTES, (off_t)0)                                                        \
    F(getcwd, to, BYTES)                                                                           \
    F(readlink, "/proc/self/exe", to, BYTES)                                                       \
    F(readlinkat, AT_FDCWD, "/proc/self/exe", to, BYTES)                                           \
    F(gethostname, to, BYTES)                                                                      \
    F(ttyname_r, terminal(), to, BYTES)                                                            \
    F(ptsname_r, terminal_master(), to, BYTES)                                                     \
    F(confstr, _CS_PATH, to, BYTES)                                                                \
    F(poll, (void *)to, BYTES / sizeof(struct pollfd), 0)                                          \
    F(ppoll, (void *)to, BYTES / sizeof(struct pollfd), &(struct timespec){0}, NULL)               \
    F(wcrtomb, to + BYTES - 1, L'x', &(mbstate_t){0})                                              \
    F(wctomb, to + BYTES - 1, L'x')
/* Those without a second form, or with another one. */
#define EACH(F)                                                                                    \
    F(bcopy, bcopy(text, to, BYTES))                                                               \
    F(bzero, bzero(to, BYTES))                                                                     \
    F(memccpy, memccpy(to, text, '.', BYTES))                                                      \
    F(memccpy_ended, memccpy(to, text, 0, 2 * BYTES))                                              \
    F(strlcpy, strlcpy(to, text, 2 * BYTES))                                                       \
    F(strlcpy_cut, strlcpy(to, longer, BYTES))                                                     \
    F(strlcat, strlcat(to, text, 2 * BYTES))                                                       \
    F(strlcat_cut, strlcat(to, longer, BYTES))                                                     \
    F(strlcpy_chk, __strlcpy_chk(to, text, 2 * BYTES, SIZE_MAX))                                   \
    F(strlcat_chk, __strlcat_chk(to, text, 2 * BYTES, SIZE_MAX))                                   \
    F(wcslcpy, wcslcpy(words, wide, 2 * WIDE))                                                     \
    F(wcslcpy_cut, wcslcpy(words, wider, WIDE))                                                    \
    F(wcslcat, wcslcat(words, wide, 2 * WIDE))                                                     \
    F(wcslcat_cut, wcslcat(words, wider, WIDE))                                                    \
    F(wcslcpy_chk, __wcslcpy_chk(words, wide, 2 * WIDE, SIZE_MAX))                                 \
    F(wcslcat_chk, __wcslcat_chk(words, wide, 2 * WIDE, SIZE_MAX))                                 \
    F(swab, swab(text, to, BYTES))                                                                 \
    F(iconv, iconv(converter(), &(char *){(char *)text}, &(size_t){BYTES}, &(char *){to},          \
                   &(size_t){BYTES}))                                                              \
    F(readv, readv(source(), &(struct iovec){to, BYTES}, 1))                                       \
    F(preadv, preadv(file(), &(struct iovec){to, BYTES}, 1, 0))                                    \
    F(preadv64, preadv64(file(), &(struct iovec){to, BYTES}, 1, 0))                                \
    F(preadv2, preadv2(file(), &(struct iovec){to, BYTES}, 1, 0, 0))                               \
    F(preadv64v2, preadv64v2(file(), &(struct iovec){to, BYTES}, 1, 0, 0))                         \
    F(recv, recv(source(), to, BYTES, 0))                                                          \
    F(recv_chk, __recv_chk(source(), to, BYTES, SIZE_MAX, 0))                                      \
    F(recvfrom, recvfrom(source(), to, BYTES, 0, NULL, NULL))                                      \
    F(recvfrom_chk, __recvfrom_chk(source(), to, BYTES, SIZE_MAX, 0, NULL, NULL))                  \
    F(recvmsg, struct iovec part = {to COMMA BYTES};                                               \
      recvmsg(source(), &(struct msghdr){.msg_iov = &part COMMA.msg_iovlen = 1}, 0))               \
    F(recvmmsg, struct iovec part = {to COMMA BYTES};                                              \
      struct mmsghdr message = {{.msg_iov = &part COMMA.msg_iovlen = 1}};                          \
      recvmmsg(source(), &message, 1, 0, NULL))                                                    \
    F(accept, accept(asked(), (void *)to, &(socklen_t){BYTES}))                                    \
    F(accept4, accept4(asked(), (void *)to, &(socklen_t){BYTES}, SOCK_CLOEXEC))                    \
    F(getsockname, getsockname(sink(), (void *)to, &(socklen_t){BYTES}))                           \
    F(getpeername, getpeername(sink(), (void *)to, &(socklen_t){BYTES}))                           \
    F(getsockopt, getsockopt(sink(), SOL_SOCKET, SO_TYPE, to, &(socklen_t){BYTES}))                \
    F(getrandom, getrandom(to, BYTES, 0))                                                          \
    F(getentropy, getentropy(to, BYTES))                                                           \
    F(inet_ntop, inet_ntop(AF_INET, "abcd", to, BYTES))                                            \
    F(inet_ntop_chk, __inet_ntop_chk(AF_INET, "abcd", to, BYTES, SIZE_MAX))                        \
    F(strftime, strftime(to, BYTES, "%F", &when))                                                  \
    F(wcsftime, wcsftime(words, WIDE, L"%Y", &when))                                               \
    F(strxfrm, strxfrm(to, text, BYTES))                                                           \
    F(wcsxfrm, wcsxfrm(words, wide, WIDE))                                                         \
    F(strftime_l, strftime_l(to, BYTES, "%F", &when, plain()))                                     \
    F(wcsftime_l, wcsftime_l(words, WIDE, L"%Y", &when, plain()))                                  \
    F(strxfrm_l, strxfrm_l(to, text, BYTES, plain()))                                              \
    F(wcsxfrm_l, wcsxfrm_l(words, wide, WIDE, plain()))                                            \
    F(strftime_l_older, __strftime_l(to, BYTES, "%F", &when, plain()))                             \
    F(wcsftime_l_older, __wcsftime_l(words, WIDE, L"%Y", &when, plain()))                          \
    F(strxfrm_l_older, __strxfrm_l(to, text, BYTES, plain()))                                      \
    F(wcsxfrm_l_older, __wcsxfrm_l(words, wide, WIDE, plain()))                                    \
    F(strerror_r, strerror_r(12345, to, BYTES))                                                    \
    F(xpg_strerror_r, __xpg_strerror_r(12345, to, BYTES))                                          \
    F(fread, fread(to, 2, BYTES / 2, fdopen(file(), "r")))                                         \
    F(fread_chk, __fread_chk(to, SIZE_MAX, 2, BYTES / 2, fdopen(file(), "r")))                     \
    F(fread_unlocked, fread_unlocked(to, 2, BYTES / 2, fdopen(file(), "r")))                       \
    F(fread_unlocked_chk, __fread_unlocked_chk(to, SIZE_MAX, 2, BYTES / 2, fdopen(file(), "r")))   \
    F(fgets, fgets(to, BYTES, fdopen(file(), "r")))                                                \
    F(fgets_chk, __fgets_chk(to, SIZE_MAX, BYTES, fdopen(file(), "r")))                            \
    F(fgets_unlocked, fgets_unlocked(to, BYTES, fdopen(file(), "r")))                              \
    F(fgets_unlocked_chk, __fgets_unlocked_chk(to, SIZE_MAX, BYTES, fdopen(file(), "r")))          \
    F(fgetws, fgetws(words, WIDE, fdopen(file(), "r")))                                            \
    F(fgetws_chk, __fgetws_chk(words, SIZE_MAX, WIDE, fdopen(file(), "r")))                        \
    F(fgetws_unlocked, fgetws_unlocked(words, WIDE, fdopen(file(), "r")))                          \
    F(fgetws_unlocked_chk, __fgetws_unlocked_chk(words, SIZE_MAX, WIDE, fdopen(file(), "r")))      \
    F(sprintf, sprintf(to, "%s", from))                                                            \
    F(sprintf_chk, __sprintf_chk(to, 0, SIZE_MAX, "%s", from))                                     \
    F(vsprintf, printed(to, "%s", from))                                                           \
    F(snprintf, snprintf(to, 2 * BYTES, "%s", from))                                               \
    F(snprintf_chk, __snprintf_chk(to, 2 * BYTES, 0, SIZE_MAX, "%s", from))                        \
    F(vsnprintf, printed_to(to, "%s", from))                                                       \
    F(swprintf, swprintf(words, WIDE, L"%ls", wide))                                               \
    F(swprintf_chk, __swprintf_chk(words, WIDE, 0, SIZE_MAX, L"%ls", wide))
/* Those that only read it, or may have nothing to write. */
#define SENDING(F)                                                                                 \
    F(write, write(sink(), to, BYTES))                                                             \
    F(writev, writev(sink(), &(struct iovec){to, BYTES}, 1))                                       \
    F(pwrite, pwrite(open("/dev/null", O_WRONLY), to, BYTES, 0))                                   \
    F(pwrite64, pwrite64(open("/dev/null", O_WRONLY), to, BYTES, 0))                               \
    F(pwritev, pwritev(file(), &(struct iovec){to, BYTES}, 1, 0))                                  \
    F(pwritev64, pwritev64(file(), &(struct iovec){to, BYTES}, 1, 0))                              \
    F(pwritev2, pwritev2(file(), &(struct iovec){to, BYTES}, 1, 0, 0))                             \
    F(pwritev64v2, pwritev64v2(file(), &(struct iovec){to, BYTES}, 1, 0, 0))                       \
    F(readv_parts, readv(source(), memset(to + 8, 0, BYTES - 9), 2))                               \
    F(send, send(sink(), to, BYTES, 0))                                                            \
    F(sendto, sendto(sink(), to, BYTES, 0, NULL, 0))                                               \
    F(sendto_whom, sendto(sink(), text, 1, 0, (void *)to, BYTES))                                  \
    F(sendmsg, struct iovec part = {to COMMA BYTES};                                               \
      sendmsg(sink(), &(struct msghdr){.msg_iov = &part COMMA.msg_iovlen = 1}, 0))                 \
    F(sendmsg_whom, sendmsg(sink(), &(struct msghdr){.msg_name = to, .msg_namelen = BYTES}, 0))    \
    F(sendmsg_control,                                                                             \
      sendmsg(sink(), &(struct msghdr){.msg_control = to, .msg_controllen = BYTES}, 0))            \
    F(sendmmsg, struct iovec part = {to COMMA BYTES};                                              \
      struct mmsghdr message = {{.msg_iov = &part COMMA.msg_iovlen = 1}};                          \
      sendmmsg(sink(), &message, 1, 0))                                                            \
    F(recvfrom_whom, recvfrom(source(), elsewhere, 1, 0, (void *)to, &(socklen_t){BYTES}))         \
    F(recvfrom_whom_chk,                                                                           \
      __recvfrom_chk(source(), elsewhere, 1, SIZE_MAX, 0, to, &(socklen_t){BYTES}))                \
    F(recvmsg_whom, recvmsg(source(), &(struct msghdr){.msg_name = to, .msg_namelen = BYTES}, 0))  \
    F(recvmsg_control,                                                                             \
      recvmsg(source(), &(struct msghdr){.msg_control = to, .msg_controllen = BYTES}, 0))          \
    F(getgroups, getgroups((int)(BYTES / sizeof(gid_t)), (void *)to))                              \
    F(getgroups_chk, __getgroups_chk((int)(BYTES / sizeof(gid_t)), to, SIZE_MAX))                  \
    F(getlogin_r, getlogin_r(to, BYTES))                                                           \
    F(getlogin_r_chk, __getlogin_r_chk(to, BYTES, SIZE_MAX))                                       \
    F(getdomainname, getdomainname(to, BYTES))                                                     \
    F(getdomainname_chk, __getdomainname_chk(to, BYTES, SIZE_MAX))                                 \
    F(swab_from, swab(to, elsewhere, BYTES))                                                       \
    F(iconv_from, iconv(converter(), &(char *){to}, &(size_t){BYTES},                              \
                        &(char *){(char *)elsewhere}, &(size_t){BYTES}))                           \
    F(strxfrm_from, strxfrm((char *)elsewhere, texted(to), BYTES))                                 \
    F(wcsxfrm_from, wcsxfrm(elsewhere, texted(to), WIDE))                                          \
    F(strxfrm_l_from, strxfrm_l((char *)elsewhere, texted(to), BYTES, plain()))                    \
    F(wcsxfrm_l_from, wcsxfrm_l(elsewhere, texted(to), WIDE, plain()))                             \
    F(fwrite, fwrite(to, 2, BYTES / 2, fopen("/dev/null", "w")))                                   \
    F(fwrite_unlocked, fwrite_unlocked(to, 2, BYTES / 2, fopen("/dev/null", "w")))                 \
    F(fputs, fputs(texted(to), fopen("/dev/null", "w")))                                           \
    F(fputs_unlocked, fputs_unlocked(texted(to), fopen("/dev/null", "w")))                         \
    F(fputws, fputws(texted(to), fopen("/dev/null", "w")))                                         \
    F(fputws_unlocked, fputws_unlocked(texted(to), fopen("/dev/null", "w")))                       \
    F(puts, puts(texted(to)))                                                                      \
    F(strdup, free(strdup(texted(to))))                                                            \
    F(strndup, free(strndup(texted(to), 2 * BYTES)))                                               \
    F(wcsdup, free(wcsdup(texted(to))))
#define COMMA ,
#define FILLING(name, call)                                                                        \
    static void fill_##name(char *to) {                                                            \
        const char *volatile from = text;                                                          \
        wchar_t *words = (wchar_t *)(void *)to;                                                    \
        (void)from, (void)words;                                                                   \
        call;                                                                                      \
    }
#define FILLING_BOTH(name, ...)                                                                    \
    FILLING(name, name(__VA_ARGS__))                                                               \
    long __##name##_chk();                                                                         \
    FILLING(name##_chk, __##name##_chk(__VA_ARGS__, SIZE_MAX))
/* No header says what they are, and what they return does not matter. */
long __recv_chk(), __recvfrom_chk(), __fread_chk(), __fread_unlocked_chk(), __fgets_chk(),
    __fgets_unlocked_chk(), __fgetws_chk(), __fgetws_unlocked_chk(), __realpath_chk(),
    __getgroups_chk(), __getlogin_r_chk(), __getdomainname_chk(), __strftime_l(), __wcsftime_l(),
    __strxfrm_l(), __wcsxfrm_l();
int __xpg_strerror_r(), __sprintf_chk(char *to, int flag, size_t room, const char *format, ...),
    __snprintf_chk(char *to, size_t n, int flag, size_t room, const char *format, ...),
    __swprintf_chk(wchar_t *to, size_t n, int flag, size_t room, const wchar_t *format, ...);
EACH(FILLING)
SENDING(FILLING)
BOTH(FILLING_BOTH)
FILLING(realpath, realpath("/proc/self", to))
FILLING(realpath_chk, __realpath_chk("/proc/self", to, SIZE_MAX))
FILLING(messages, sendmmsg(sink(), memset(to, 0, sizeof(struct mmsghdr) - 1), 1, 0))

#define ROW(name, call) {#name, fill_##name, BYTES},
#define ROW_BOTH(name, ...) ROW(name, ) ROW(name##_chk, )
typedef struct {
    const char *name;
    void (*fill)(char *to);
    size_t bytes;
} row_t;
static const row_t functions[] = {
    EACH(ROW) BOTH(ROW_BOTH){"realpath", fill_realpath, PATH_MAX},
    {"realpath_chk", fill_realpath_chk, PATH_MAX},
};
static const row_t senders[] = {
    SENDING(ROW){"messages", fill_messages, sizeof(struct mmsghdr)},
};

/* What it begins with is an empty string, wide or not. */
static char *block(size_t n) { return memset(memset(malloc(n), 'y', n), 0, sizeof(wchar_t)); }

/* What lies behind the block that is to be filled, and what was there before. */
static volatile char *behind;
static char before;

static void look_behind(int number) {
    (void)number;
    if (*behind != before)
        _exit(1);
}

/* By SIGABRT, and before the byte behind it was written. */
static bool is_refused(void (*fill)(char *to), size_t bytes) {
    const pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        close(STDERR_FILENO);
        char *p = block(bytes - 1);
        behind = p + bytes - 1;
        before = *behind;
        signal(SIGABRT, look_behind);
        fill(p);
        _exit(0);
    }
    const int status = process_wait(pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#ifdef __GLIBC__
/* What the compiler knows of an array on the stack, and the C library makes of it, is no less for being asked here. */
static void overflow_the_stack(char *unused) {
    (void)unused;
    char place[8];
    char *volatile to = place;
    __snprintf_chk(to, 2 * sizeof place, 1, sizeof place, "%s", text);
}

static void tell_the_stack(char *unused) {
    char place[8];
    __inet_ntop_chk(AF_INET, "abcd", place, 2 * sizeof place, sizeof place);
}

static void convert_to_the_stack(char *unused) {
    char place[1];
    __wcrtomb_chk(place, L'x', &(mbstate_t){0}, 0);
}

/* Nor what it makes of a format that writes, and could be the attacker's: before anything is measured by it. */
static void print_what_writes(char *to) {
    static int count;
    char format[] = "%n";
    *(char *)(behind = (char *)&count) = before = 1;
    __sprintf_chk(to, 1, SIZE_MAX, format, &count);
}
#endif

/* Where it is only reported, what is printed is what there would be without the check. */
static void report(void) {
    char *p = block(8);
    CHECK(snprintf(p, BYTES, "%s", "0123456789") == 10, "it is as long as ever");
    CHECK(memcmp(p, "0123456789", 11) == 0, "it was cut: %s", p);
    free(p);
}

/* Nobody has called these two yet, of which not every C library has both: what the loader had to say is still there. */
static void keep_the_error(void) {
    char to[BYTES];
    CHECK(dlopen("/no/such", RTLD_NOW) == NULL, "it is there");
    stpncpy(to, text, BYTES);
    strlcpy(to, text, BYTES);
    const char *error = dlerror();
    CHECK(error != NULL && strstr(error, "/no/such") != NULL,
          "the first call of a function lost the error: %s", error);
}

/* So many bytes behind which nothing is. */
static void *before_nothing(size_t n) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (n + page - 1) / page * page;
    char *at = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && mprotect(at + bytes, page, PROT_NONE) == 0, "mmap");
    return at + bytes - n;
}

/* What the system refuses, or cuts, before it looks at it is not looked at for it either. */
static void fail_as_ever(void) {
#define FAILS(error, call)                                                                         \
    CHECK((call) == -1 && errno == (error), "not %s but %s", #error, strerror(errno))
    enum { TOO_MANY = 2000, MOST = 1024 };
    const int fd = sink();
    struct iovec *part = before_nothing(sizeof *part);
    struct msghdr nowhere = {.msg_iovlen = 1}, many = {.msg_iov = part, .msg_iovlen = TOO_MANY};
    struct mmsghdr *messages = before_nothing(MOST * sizeof *messages);
    FAILS(EFAULT, readv(fd, NULL, 1));
    FAILS(EINVAL, readv(fd, part, TOO_MANY));
    FAILS(EINVAL, readv(fd, part, -1));
    FAILS(EFAULT, writev(fd, NULL, 1));
    FAILS(EINVAL, writev(fd, part, TOO_MANY));
    FAILS(EFAULT, preadv(file(), NULL, 1, 0));
    FAILS(EINVAL, pwritev(file(), part, TOO_MANY, 0));
    FAILS(EFAULT, recvmsg(fd, NULL, 0));
    FAILS(EFAULT, recvmsg(fd, &nowhere, 0));
    FAILS(EMSGSIZE, recvmsg(fd, &many, 0));
    FAILS(EFAULT, sendmsg(fd, NULL, 0));
    FAILS(EFAULT, sendmsg(fd, &nowhere, 0));
    FAILS(EMSGSIZE, sendmsg(fd, &many, 0));
    FAILS(EFAULT, recvmmsg(fd, NULL, 1, 0, NULL));
    FAILS(EAGAIN, recvmmsg(fd, messages, TOO_MANY, MSG_DONTWAIT, NULL));
    FAILS(EFAULT, sendmmsg(fd, NULL, 1, 0));
    CHECK(sendmmsg(fd, messages, TOO_MANY, 0) == MOST, "sendmmsg: %s", strerror(errno));
    FAILS(EFAULT, poll(NULL, 1, 0));
    FAILS(EFAULT, accept(asked(), (void *)part, NULL));
}

/* A target that is nowhere, and a length that nobody asks. */
static void ask_for_nothing(void) {
    CHECK(poll(NULL, 0, 0) == 0 && getgroups(0, NULL) >= 0, "nothing is asked for");
    CHECK(getgroups(-1, NULL) == -1 && errno == EINVAL, "less than nothing is asked for");
    CHECK(confstr(_CS_PATH, NULL, 0) > 0, "confstr measures");
    CHECK(strxfrm(NULL, text, 0) == BYTES - 1, "strxfrm measures");
    CHECK(wctomb(NULL, 0) == 0 && wcrtomb(NULL, L'x', NULL) == 1, "no character is asked for");
    CHECK(iconv(converter(), NULL, NULL, NULL, NULL) == 0, "iconv begins anew");
    CHECK(accept(asked(), NULL, NULL) >= 0, "accept: %s", strerror(errno));
    CHECK(recvfrom(source(), elsewhere, 1, 0, NULL, (socklen_t *)1) == 1, "recvfrom tells nobody");
    char *p = block(BYTES);
    swab(text, p, -1);
    swab("abc", p, 3);
    CHECK(memcmp(p, "ba\0", 3) == 0, "swab leaves the odd byte");
    free(p);
}

/* It takes no more than it does, though others of its locale do. */
static void write_characters(void) {
    CHECK(setlocale(LC_CTYPE, "C.UTF-8") != NULL && MB_CUR_MAX > 3, "no UTF-8");
    char *p = malloc(3);
    mbstate_t state = {0};
    CHECK(wctomb(p, L'\u20ac') == 3 && memcmp(p, "\xe2\x82\xac", 3) == 0, "wctomb");
    memset(p, 0, 3);
    CHECK(wcrtomb(p, L'\u20ac', &state) == 3 && memcmp(p, "\xe2\x82\xac", 3) == 0, "wcrtomb");
    CHECK(wcrtomb(p, 0, &state) == 1 && *p == 0 && p[1] == '\x82', "the end of a text");
    CHECK(wcrtomb(p, (wchar_t)0xd800, &state) == (size_t)-1 && errno == EILSEQ, "no character");
    CHECK(wctomb(p, (wchar_t)0xd800) == -1 && p[1] == '\x82', "it wrote what is none");
    free(p);
}

/* As strlcpy and strlcat, with words. */
static void cut_words(void) {
    wchar_t *words = malloc(4 * sizeof *words);
    CHECK(wcslcpy(words, L"one", 4) == 3 && wcscmp(words, L"one") == 0, "it fits");
    CHECK(wcslcat(words, L"two", 4) == 6 && wcscmp(words, L"one") == 0, "it is full");
    CHECK(wcslcpy(words, wide, 4) == 9 && wcscmp(words, L"in ") == 0, "it is cut");
    CHECK(wcslcat(words, L"two", 2) == 5 && wcscmp(words, L"in ") == 0, "it ends later");
    CHECK(wcslcpy(words, wide, 0) == 9 && wcscmp(words, L"in ") == 0, "it is only measured");
    wcscpy(words, L"a");
    CHECK(wcslcat(words, L"two", 4) == 4 && wcscmp(words, L"atw") == 0, "the rest is cut");
    free(words);
}

int main(void) {
    world_begin(60);
    if (getenv("HAKMEM_ON_FAULT") != NULL) {
        report();
        return 0;
    }
    CHECK(dlerror() == NULL, "the start leaves an error");
    keep_the_error();
    CHECK(chdir("/usr/bin") == 0, "chdir: %s", strerror(errno));
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const size_t bytes = functions[i].bytes;
        char *p = block(bytes), *as_it_was = block(bytes);
        functions[i].fill(p);
        CHECK(memcmp(p, as_it_was, bytes) != 0, "%s does nothing", functions[i].name);
        free(p), free(as_it_was);
        CHECK(is_refused(functions[i].fill, bytes), "%s fills more than there is",
              functions[i].name);
    }
    for (size_t i = 0; i < sizeof senders / sizeof senders[0]; i++) {
        char *p = block(senders[i].bytes);
        senders[i].fill(p);
        free(p);
        CHECK(is_refused(senders[i].fill, senders[i].bytes), "%s goes beyond what there is",
              senders[i].name);
    }
#ifdef __GLIBC__
    CHECK(is_refused(overflow_the_stack, BYTES), "a fortified snprintf overflows");
    CHECK(is_refused(tell_the_stack, BYTES), "a fortified inet_ntop does");
    CHECK(is_refused(convert_to_the_stack, BYTES), "a fortified wcrtomb does");
    CHECK(is_refused(print_what_writes, BYTES), "a fortified sprintf writes by its format");
#endif
    char *p = block(BYTES); // it may read what it writes to
    strcpy(p, "one");
    char *volatile same = p;
    sprintf(p, "%s, two", same);
    CHECK(strcmp(p, "one, two") == 0, "%s", p);
    free(p);
    CHECK((p = getcwd(NULL, 0)) != NULL && strcmp(p, "/usr/bin") == 0, "getcwd makes a block");
    free(p);
    CHECK((p = realpath(".", NULL)) != NULL && strcmp(p, "/usr/bin") == 0, "realpath makes one");
    free(p);
    p = aligned_alloc(65536, 131072); // what describes it is not where that of other blocks is
    for (size_t at = 0; at < 131072 - BYTES; at += 1000)
        memcpy(memset(p + at, 1, BYTES), text, BYTES);
    free(p);
    CHECK(mbstowcs(NULL, text, 0) == BYTES - 1, "mbstowcs measures");
    CHECK(strlcpy(block(8), text, 8) == BYTES - 1, "strlcpy says what it had to cut");
    fail_as_ever();
    ask_for_nothing();
    cut_words();
    write_characters();
}
