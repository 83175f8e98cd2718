// Each function that libhakmem_check.so stands before does its work on a block that is just long enough, and
// ends the process before it writes beyond one that is a byte shorter. So does the form of it that a compiler
// calls which knows how large a target is, here with the least that it may know.
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <wchar.h>

#include "process.h"

#define BYTES ((size_t)40)
#define WIDE (BYTES / sizeof(wchar_t))
static const char text[BYTES] = "as many bytes as the block has and no w";
static const char longer[] = "more bytes than the block has, which is cut";
static const wchar_t wide[WIDE] = L"in words.";

/* Not every C library has them: then these are libhakmem_check.so's own. */
__attribute__((weak)) size_t strlcpy(char *to, const char *from, size_t n);
__attribute__((weak)) size_t strlcat(char *to, const char *from, size_t n);
__attribute__((weak)) size_t __strlcpy_chk(char *to, const char *from, size_t n, size_t room);
__attribute__((weak)) size_t __strlcat_chk(char *to, const char *from, size_t n, size_t room);

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

/* A terminal of our own. */
static int terminal(void) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && unlockpt(master) == 0, "posix_openpt: %s", strerror(errno));
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
    F(ttyname_r, terminal(), to, BYTES)
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
    F(getrandom, getrandom(to, BYTES, 0))                                                          \
    F(getentropy, getentropy(to, BYTES))                                                           \
    F(inet_ntop, inet_ntop(AF_INET, "abcd", to, BYTES))                                            \
    F(strftime, strftime(to, BYTES, "%F", &when))                                                  \
    F(wcsftime, wcsftime(words, WIDE, L"%Y", &when))                                               \
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
/* Those that only read it. */
#define SENDING(F)                                                                                 \
    F(write, write(sink(), to, BYTES))                                                             \
    F(writev, writev(sink(), &(struct iovec){to, BYTES}, 1))                                       \
    F(pwrite, pwrite(open("/dev/null", O_WRONLY), to, BYTES, 0))                                   \
    F(pwrite64, pwrite64(open("/dev/null", O_WRONLY), to, BYTES, 0))                               \
    F(send, send(sink(), to, BYTES, 0))                                                            \
    F(sendto, sendto(sink(), to, BYTES, 0, NULL, 0))                                               \
    F(sendmsg, struct iovec part = {to COMMA BYTES};                                               \
      sendmsg(sink(), &(struct msghdr){.msg_iov = &part COMMA.msg_iovlen = 1}, 0))                 \
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
    __fgets_unlocked_chk(), __fgetws_chk(), __fgetws_unlocked_chk(), __realpath_chk();
int __xpg_strerror_r(), __sprintf_chk(char *to, int flag, size_t room, const char *format, ...),
    __snprintf_chk(char *to, size_t n, int flag, size_t room, const char *format, ...),
    __swprintf_chk(wchar_t *to, size_t n, int flag, size_t room, const wchar_t *format, ...);
EACH(FILLING)
SENDING(FILLING)
BOTH(FILLING_BOTH)
FILLING(realpath, realpath("/proc/self", to))
FILLING(realpath_chk, __realpath_chk("/proc/self", to, SIZE_MAX))

#define ROW(name, call) {#name, fill_##name, BYTES},
#define SENDER(name, call) fill_##name,
#define ROW_BOTH(name, ...) ROW(name, ) ROW(name##_chk, )
static const struct {
    const char *name;
    void (*fill)(char *to);
    size_t bytes;
} functions[] = {
    EACH(ROW) BOTH(ROW_BOTH){"realpath", fill_realpath, PATH_MAX},
    {"realpath_chk", fill_realpath_chk, PATH_MAX},
};
static void (*const senders[])(char *) = {SENDING(SENDER)};

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
        char *p = block(BYTES);
        senders[i](p);
        free(p);
        CHECK(is_refused(senders[i], BYTES), "sender %zu sends more than there is", i);
    }
#ifdef __GLIBC__
    CHECK(is_refused(overflow_the_stack, BYTES), "a fortified snprintf overflows");
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
}
