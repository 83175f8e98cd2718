// Each function that libhakmem_check.so stands before fills a block to its last byte as it always did,
// and a block that is a little shorter not at all.
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <wchar.h>

#include "process.h"

enum { BYTES = 40, WIDE = BYTES / sizeof(wchar_t) };
static const char text[BYTES] = "as many bytes as the block has and no w";
static const wchar_t wide[WIDE] = L"in words.";

/* A descriptor from which the text can be read. */
static int source(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair: %s", strerror(errno));
    CHECK(write(ends[0], text, BYTES) == BYTES, "write: %s", strerror(errno));
    close(ends[0]);
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

/* What a block is filled by, whole; some read what is in it already. */
#define EACH(F)                                                                                    \
    F(memcpy, memcpy(to, text, BYTES))                                                             \
    F(mempcpy, mempcpy(to, text, BYTES))                                                           \
    F(memmove, memmove(to, text, BYTES))                                                           \
    F(memset, memset(to, 'x', BYTES))                                                              \
    F(bcopy, bcopy(text, to, BYTES))                                                               \
    F(bzero, bzero(to, BYTES))                                                                     \
    F(explicit_bzero, explicit_bzero(to, BYTES))                                                   \
    F(strcpy, strcpy(to, text))                                                                    \
    F(stpcpy, stpcpy(to, text))                                                                    \
    F(strncpy, strncpy(to, text, BYTES))                                                           \
    F(stpncpy, stpncpy(to, text, BYTES))                                                           \
    F(strcat, strcat(to, text))                                                                    \
    F(strncat, strncat(to, text, 2 * BYTES))                                                       \
    F(wmemcpy, wmemcpy(words, wide, WIDE))                                                         \
    F(wmemmove, wmemmove(words, wide, WIDE))                                                       \
    F(wmemset, wmemset(words, L'x', WIDE))                                                         \
    F(wcscpy, wcscpy(words, wide))                                                                 \
    F(wcsncpy, wcsncpy(words, wide, WIDE))                                                         \
    F(wcscat, wcscat(words, wide))                                                                 \
    F(read, CHECK(read(source(), to, BYTES) == BYTES, "read"))                                     \
    F(pread, CHECK(pread(file(), to, BYTES, 0) == BYTES, "pread"))                                 \
    F(readv, CHECK(readv(source(), &(struct iovec){to, BYTES}, 1) == BYTES, "readv"))              \
    F(recv, CHECK(recv(source(), to, BYTES, 0) == BYTES, "recv"))                                  \
    F(recvfrom, CHECK(recvfrom(source(), to, BYTES, 0, NULL, NULL) == BYTES, "recvfrom"))          \
    F(recvmsg, struct iovec part = {to COMMA BYTES};                                               \
      struct msghdr message = {.msg_iov = &part COMMA.msg_iovlen = 1};                             \
      CHECK(recvmsg(source(), &message, 0) == BYTES, "recvmsg"))                                   \
    F(fread, CHECK(fread(to, 2, BYTES / 2, fdopen(file(), "r")) == BYTES / 2, "fread"))            \
    F(fgets, CHECK(fgets(to, BYTES, fdopen(file(), "r")) == to, "fgets"))                          \
    F(sprintf, sprintf(to, "%s", from))                                                            \
    F(vsprintf, printed(to, "%s", from))                                                           \
    F(snprintf, snprintf(to, 2 * BYTES, "%s", from))                                               \
    F(vsnprintf, printed_to(to, "%s", from))
#define COMMA ,
#define FILLING(name, call)                                                                        \
    static void fill_##name(char *to) {                                                            \
        const char *volatile from = text;                                                          \
        wchar_t *words = (wchar_t *)(void *)to;                                                    \
        (void)from, (void)words;                                                                   \
        call;                                                                                      \
    }
EACH(FILLING)

#define ROW(name, call) {#name, fill_##name},
static const struct {
    const char *name;
    void (*fill)(char *to);
} functions[] = {EACH(ROW)};

/* One that is zero: what it begins with is an empty string. */
static char *block(size_t n) {
    char *p = calloc(1, n);
    CHECK(p != NULL, "no memory");
    return p;
}

static bool is_refused(void (*fill)(char *to)) {
    const pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        close(STDERR_FILENO);
        fill(block(BYTES - 1));
        _exit(0);
    }
    const int status = process_wait(pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(void) {
    world_begin(60);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        char *p = block(BYTES);
        functions[i].fill(p);
        free(p);
        CHECK(is_refused(functions[i].fill), "%s fills more than there is", functions[i].name);
    }
    char *p = block(BYTES); // it may read what it writes to
    strcpy(p, "one");
    char *volatile same = p;
    sprintf(p, "%s, two", same);
    CHECK(strcmp(p, "one, two") == 0, "%s", p);
    free(p);
}
