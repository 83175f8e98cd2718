/* startup: programs are started one after the other, with a library preloaded into each. */
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/measure.h"

static const char *command, *preload;
static uint64_t count;
static bool rss;

static const hb_option_t options[] = {
    {HB_TEXT, "command", &command, .start = "/bin/true",
     .doc = "absolute path of the program to start, without arguments; /bin/true by default"},
    {HB_UINT, "count", &count, .start = "2000", .smoke = "20", .min = 1, .doc = "starts"},
    {HB_TEXT, "preload", &preload, .env = "BENCH_STARTUP_PRELOAD",
     .doc = "LD_PRELOAD of the started programs"},
    {HB_FLAG, "rss", &rss, .doc = "also report the highest resident set of a child"},
};

static const hb_program_t program = {
    .name = "startup",
    .summary = "what a program's start and exit cost with a library preloaded",
    .operation = "one program started and waited for",
    .notes =
        "An LD_PRELOAD in this program's own environment is taken as --preload: the program\n"
        "starts itself again without it, so that it is not what is measured. Times and faults\n"
        "are those of this program and of its children. Members of the result besides the\n"
        "usual: us_per_exec and, with --rss, child_max_rss_kb.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* Moves LD_PRELOAD out of our own way. */
static void step_aside(char **argv) {
    const char *own = getenv("LD_PRELOAD");
    if (own == NULL || own[0] == '\0') {
        return;
    }
    if (setenv("BENCH_STARTUP_PRELOAD", own, 1) != 0 || unsetenv("LD_PRELOAD") != 0) {
        hb_die("cannot change the environment: %s", strerror(errno));
    }
    execv("/proc/self/exe", argv);
    hb_die("cannot start /proc/self/exe again: %s", strerror(errno));
}

/* Starts the command once; returns its highest resident set in KiB. */
static uint64_t start_one(void) {
    char *const argv[] = {(char *)(uintptr_t)command, NULL};
    pid_t pid;
    const int error = posix_spawn(&pid, command, NULL, NULL, argv, environ);
    if (error != 0) {
        hb_die("cannot start %s: %s", command, strerror(error));
    }
    int status;
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0) {
        if (errno != EINTR) {
            hb_die("wait4: %s", strerror(errno));
        }
    }
    if (status != 0) {
        hb_die("%s failed with wait status 0x%x", command, (unsigned)status);
    }
    return (uint64_t)usage.ru_maxrss;
}

int main(int argc, char **argv) {
    char extra[128];
    step_aside(argv);
    hb_options_parse(&program, argc, argv);
    unsetenv("BENCH_STARTUP_PRELOAD");
    if (preload != NULL && setenv("LD_PRELOAD", preload, 1) != 0) {
        hb_die("cannot set LD_PRELOAD: %s", strerror(errno));
    }
    /* Once is proof enough: the others do no more than they would anyway. */
    uint64_t peak_kb = start_one();
    unsetenv("HAKMEM_PROOF");
    const hb_usage_t begin = hb_usage_now_with_children();
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t kb = start_one();
        peak_kb = kb > peak_kb ? kb : peak_kb;
    }
    const hb_usage_t end = hb_usage_now_with_children();
    const hb_usage_t usage = hb_usage_between(&begin, &end);
    const int length =
        snprintf(extra, sizeof extra, "\"us_per_exec\":%.3f", usage.wall_s * 1e6 / (double)count);
    if (rss) {
        snprintf(extra + length, sizeof extra - (size_t)length, ",\"child_max_rss_kb\":%" PRIu64,
                 peak_kb);
    }
    hb_report(&program, count, &usage, extra);
    return 0;
}
