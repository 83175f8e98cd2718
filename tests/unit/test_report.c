/* The line formatter, compared with the C library's; parsing of numbers and words; writing to a slow reader. */
#include "base/report.h"

#include <fcntl.h>
#include <sys/time.h>
#include <time.h>

#include "base/calls.h"
#include "check.h"

#define SAME(...)                                                                                  \
    do {                                                                                           \
        char expected[256];                                                                        \
        hk_line_t line = {0};                                                                      \
        snprintf(expected, sizeof expected, __VA_ARGS__);                                          \
        hk_line_put(&line, __VA_ARGS__);                                                           \
        CHECK(strcmp(hk_line_text(&line), expected) == 0);                                         \
    } while (0)

static void as_printf(void) {
    SAME("%s%s", "one", "");
    SAME("[%6s][%-6s][%2s]", "four", "four", "four");
    SAME("[%-*s][%.*s][%.*s]", 7, "wide", 3, "cut off", 9, "whole");
    SAME("[%lu][%lu][%4lu][%-4lu][%09lu]", 0ul, UINT64_MAX, 42ul, 42ul, 42ul);
    SAME("[%lx][%#lx][%04lx]", UINT64_MAX, 48879ul, 31ul);
}

/* A line that is full is truncated, and can still be ended. */
static void full(void) {
    hk_line_t line = {0};
    for (unsigned i = 0; i < 600; i++)
        hk_line_put(&line, "%s%lu", "a", 7ul);
    CHECK_EQ(line.len, sizeof line.text - 1);
    CHECK_EQ(strlen(hk_line_text(&line)), sizeof line.text - 1);
}

static bool reads(const char *s, uint64_t expected, const char *behind) {
    uint64_t value = 0;
    const char *at = s;
    return hk_parse(&at, &value) && value == expected && strcmp(at, behind) == 0;
}

static void numbers(void) {
    CHECK(reads("0", 0, "") && reads("0042 kB", 42, " kB"));
    CHECK(reads("18446744073709551615", UINT64_MAX, ""));
    CHECK(!reads("18446744073709551616", 0, "") && !reads("99999999999999999999", 0, ""));
    CHECK(!reads("", 0, "") && !reads("-1", 0, "-1") && !reads(" 1", 1, ""));
}

static void words(void) {
    uint64_t number = 99;
    CHECK(hk_word_find("a|bc|b", "b", 1, &number) && number == 2);
    CHECK(hk_word_find("a|bc|b", "bcd", 2, &number) && number == 1);
    CHECK(!hk_word_find("a|bc|b", "", 0, &number) && !hk_word_find("a|bc|b", "c", 1, &number));
    CHECK(hk_word_find("a||b", "", 0, &number) && number == 1);
    CHECK(strcmp(hk_word_at("a|bc|b", 1), "bc|b") == 0 && hk_word_at("a|bc|b", 3) == NULL);
}

/* ---- a full pipe that does not block, as stderr ---- */

static int ends[2];
static char seen[32]; /* the bytes read last */
static volatile size_t seen_bytes;

static void read_all(int number) {
    const int saved = errno;
    (void)number;
    for (ssize_t n; (n = read(ends[0], seen, sizeof seen)) > 0;)
        seen_bytes = (size_t)n;
    errno = saved;
}

static void fill(void) {
    static const char zeros[4096];
    CHECK(pipe(ends) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(fcntl(ends[i], F_SETFL, O_NONBLOCK) == 0);
    for (size_t n = sizeof zeros; n > 0; n /= 2)
        while (write(ends[1], zeros, n) > 0)
            continue;
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
}

/* The reader is a signal handler that runs while the writer waits: the line arrives, and errno is unchanged. */
static void waits(void *unused) {
    const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    (void)unused;
    CHECK(signal(SIGALRM, read_all) != SIG_ERR);
    fill();
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    errno = 77;
    hk_say("what matters");
    CHECK_EQ(errno, 77);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    read_all(0);
    CHECK(seen_bytes >= 13 && memcmp(seen + seen_bytes - 13, "what matters\n", 13) == 0);
}

/* Returns how many system calls a refused write takes. */
static uint64_t refused(int fd) {
    const uint64_t before = hk_counted_ever(other_calls);
    CHECK_EQ(hk_write_all(fd, "x", 1), EAGAIN);
    return hk_counted_ever(other_calls) - before;
}

static void gives_up(void *unused) {
    enum { ONE_WRITE = 3, A_LOOK = 1, A_WAIT = 1, TIMES = 20 };
    struct timespec before, after;
    (void)unused;
    fill();
    CHECK_EQ(refused(ends[1]), ONE_WRITE); /* not stderr: no wait */
    CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
    CHECK_EQ(refused(STDERR_FILENO), ONE_WRITE + A_LOOK + A_WAIT);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >=
          999);
    uint64_t calls = 0;
    for (unsigned i = 0; i < TIMES; i++)
        calls += refused(STDERR_FILENO);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    CHECK(calls == TIMES * (ONE_WRITE + A_LOOK) || after.tv_sec - before.tv_sec >= 10);
}

static void slow_readers(void) {
    static child_t child;
    child_run(&child, waits, NULL);
    CHECK_EQ(child.status, 0);
    child_run(&child, gives_up, NULL);
    CHECK_EQ(child.status, 0);
}

int main(void) {
    slow_readers();
    as_printf();
    full();
    numbers();
    words();
    return 0;
}
