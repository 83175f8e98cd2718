/* What every unit test needs: CHECK, child processes whose output and exit status are checked, and
 * repeatable random numbers. Nothing here allocates: the heap under test may be the process's own. */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNIT_SKIPPED = 77 }; /* SKIP_RETURN_CODE of every unit test */

/* Says why the test is skipped; main returns the result. */
static inline int unit_skip(const char *why) {
    dprintf(STDERR_FILENO, "SKIPPED: %s\n", why);
    return UNIT_SKIPPED;
}

static inline _Noreturn void check_failed(const char *file, int line, const char *what) {
    dprintf(STDERR_FILENO, "%s:%d: failed: %s\n", file, line, what);
    _exit(1);
}

#define CHECK(c) ((c) ? (void)0 : check_failed(__FILE__, __LINE__, #c))

static inline void check_equal(const char *file, int line, const char *what, uintmax_t is,
                               uintmax_t expected) {
    if (is == expected)
        return;
    dprintf(STDERR_FILENO, "%s:%d: %s is %ju (%#jx), expected %ju (%#jx)\n", file, line, what, is,
            is, expected, expected);
    _exit(1);
}

/* For unsigned numbers, and pointers converted to them. */
#define CHECK_EQ(is, expected)                                                                     \
    check_equal(__FILE__, __LINE__, #is, (uintmax_t)(is), (uintmax_t)(expected))

static inline void check_text(const char *file, int line, const char *is, const char *expected) {
    if (strcmp(is, expected) == 0)
        return;
    dprintf(STDERR_FILENO, "%s:%d: got\n%s\nexpected\n%s\n", file, line, is, expected);
    _exit(1);
}

#define CHECK_TEXT(is, expected) check_text(__FILE__, __LINE__, is, expected)

/* ---- random numbers ---- */

/* xorshift64; the state must not be 0. */
static inline uint64_t chance(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static inline unsigned chance_below(uint64_t *state, unsigned n) {
    return (unsigned)(chance(state) >> 32) % n;
}

/* Whether an emulator runs the test, which does not implement all system calls; if so, says that
 * `what` is skipped. */
static inline bool is_emulated(const char *what) {
    if (getenv("HK_EMULATOR") == NULL)
        return false;
    dprintf(STDERR_FILENO, "SKIPPED: emulated: %s\n", what);
    return true;
}

/* ---- children ---- */

typedef struct {
    int status;      /* of waitpid */
    char text[8192]; /* what it wrote to stdout and stderr */
} child_t;

/* Runs fn(argument) in a forked child, which exits with 0 if fn returns, and waits for its end. */
static inline void child_run(child_t *child, void (*fn)(void *), void *argument) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        fn(argument);
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    ssize_t n;
    while ((n = read(ends[0], child->text + len, sizeof child->text - 1 - len)) > 0)
        len += (size_t)n;
    child->text[len] = '\0';
    char *of_emulator = strstr(child->text, "qemu: uncaught target signal");
    if (of_emulator != NULL)
        *of_emulator = '\0';
    close(ends[0]);
    CHECK(waitpid(pid, &child->status, 0) == pid);
}

/* Fails unless fn(argument), run in a child, prints only "hakmem: fatal: <kind>: 0x<p>" and
 * aborts. */
static inline void check_fatal(const char *file, int line, void (*fn)(void *), void *argument,
                               const char *kind, const void *p) {
    static child_t child;
    char expected[128];
    snprintf(expected, sizeof expected, "hakmem: fatal: %s: 0x%" PRIxPTR "\n", kind, (uintptr_t)p);
    child_run(&child, fn, argument);
    check_text(file, line, child.text, expected);
    if (!WIFSIGNALED(child.status) || WTERMSIG(child.status) != SIGABRT)
        check_failed(file, line, "the child ended by SIGABRT");
}

#define CHECK_FATAL(fn, argument, kind, p) check_fatal(__FILE__, __LINE__, fn, argument, kind, p)

#endif
