// What every conformance program needs: how it ends, the proof of the allocator it runs on, itself
// started again in another way, and blocks whose content can be checked. It knows malloc's family
// only. Exit status: 0 kept, 77 not checked here, 78 not the intended allocator, else broken.
#ifndef CONFORMANCE_PROMISE_H
#define CONFORMANCE_PROMISE_H

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define NOT_CHECKED 77
#define OTHER_ALLOCATOR 78

static bool fast = false;

// ---- how it ends -----------------------------------------------------------------------------

// One line on stderr, made without the heap, which may be broken or exhausted by now.
__attribute__((noreturn, format(printf, 2, 3))) static inline void end(int status, const char *fmt,
                                                                       ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(text, sizeof text - 1, fmt, ap);
    va_end(ap);
    size_t n = len < 0 ? 0 : (size_t)len < sizeof text - 1 ? (size_t)len : sizeof text - 2;
    text[n] = '\n';
    ssize_t written = write(STDERR_FILENO, text, n + 1);
    (void)written;
    _exit(status);
}

#define BROKEN(...) end(1, __VA_ARGS__)
#define CANNOT_CHECK(...) end(NOT_CHECKED, __VA_ARGS__)
#define PROMISE(cond, ...)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            BROKEN(__VA_ARGS__);                                                                   \
    } while (0)
// What the check itself needs of the system.
#define NEED(cond, what)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            CANNOT_CHECK("%s: %s", what, strerror(errno));                                         \
    } while (0)

// ---- how it begins ---------------------------------------------------------------------------

// Says which file answers malloc. Where CONFORMANCE_MALLOC names a file, it must be that one.
static inline void prove_allocator(void) {
    Dl_info found;
    void *function = dlsym(RTLD_DEFAULT, "malloc");
    const char *intended = getenv("CONFORMANCE_MALLOC");
    if (function == NULL || dladdr(function, &found) == 0)
        end(OTHER_ALLOCATOR, "nobody knows which file malloc is in");
    struct stat is, should;
    if (intended != NULL && (stat(intended, &should) != 0 || stat(found.dli_fname, &is) != 0 ||
                             is.st_dev != should.st_dev || is.st_ino != should.st_ino))
        end(OTHER_ALLOCATOR, "malloc is in %s, not in %s", found.dli_fname, intended);
    dprintf(STDOUT_FILENO, "malloc is in %s\n", found.dli_fname);
}

// First line of every main. Returns the stage that `again` asked for, or NULL in the first process.
static inline const char *begin(int argc, char **argv) {
    const char *stage = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--fast") == 0)
            fast = true;
        else if (strncmp(argv[i], "--stage=", 8) == 0)
            stage = argv[i] + 8;
        else
            CANNOT_CHECK("usage: %s [--fast]", argv[0]);
    }
    if (stage == NULL)
        prove_allocator();
    return stage;
}

static inline long scaled(long full, long quick) { return fast ? quick : full; }

// ---- other processes -------------------------------------------------------------------------

// A child that does not outlive us, and that SIGALRM ends if it hangs.
static inline pid_t child(void) {
    pid_t pid = fork();
    NEED(pid >= 0, "fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(300);
    }
    return pid;
}

static inline int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        NEED(errno == EINTR, "waitpid");
    return status;
}

static inline void must_end_well(int status, const char *what) {
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == NOT_CHECKED))
        _exit(WEXITSTATUS(status)); // it has said why
    PROMISE(!WIFSIGNALED(status), "%s ended by SIG%s%s", what, sigabbrev_np(WTERMSIG(status)),
            WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    PROMISE(WEXITSTATUS(status) == 0, "%s ended with status %d", what, WEXITSTATUS(status));
}

// How a stage of this program is started: limits are in force before it begins.
typedef struct {
    const char *stage;
    bool bare; // without anything preloaded: on the C library
    int resource;
    rlim_t limit; // 0: none
} again_t;

// Runs this program again, and returns the figure that it printed, -1 if it ended badly.
static inline long again(again_t how) {
    int out[2];
    char stage[64];
    snprintf(stage, sizeof stage, "--stage=%s", how.stage);
    NEED(pipe(out) == 0, "pipe");
    pid_t pid = fork();
    NEED(pid >= 0, "fork");
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        close(out[0]), close(out[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (how.bare)
            unsetenv("LD_PRELOAD");
        struct rlimit limit = {how.limit, how.limit};
        if (how.limit == 0 || setrlimit((__rlimit_resource_t)how.resource, &limit) == 0)
            execl("/proc/self/exe", "again", stage, fast ? "--fast" : NULL, NULL);
        CANNOT_CHECK("cannot start again: %s", strerror(errno));
    }
    close(out[1]);
    char text[32] = {0};
    ssize_t got = read(out[0], text, sizeof text - 1);
    close(out[0]);
    int status = wait_for(pid);
    return got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? atol(text) : -1;
}

// What a stage prints. Not by stdio, which may want a buffer of a heap that is exhausted.
__attribute__((noreturn)) static inline void answer(size_t figure) {
    char text[32];
    int len = snprintf(text, sizeof text, "%zu\n", figure);
    _exit(write(STDOUT_FILENO, text, (size_t)len) == len ? 0 : 1);
}

// ---- threads and memory ----------------------------------------------------------------------

static inline pthread_t start(void *(*work)(void *), void *argument) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, work, argument);
    NEED(errno == 0, "pthread_create");
    return thread;
}

static inline uint64_t next(uint64_t *seed) { // xorshift; the seed is not 0
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

// Bytes of this process in memory.
static inline size_t resident(void) {
    char text[128] = {0};
    FILE *file = fopen("/proc/self/statm", "re");
    NEED(file != NULL && fgets(text, sizeof text, file) != NULL, "/proc/self/statm");
    fclose(file);
    unsigned long pages = 0;
    NEED(sscanf(text, "%*u %lu", &pages) == 1, "/proc/self/statm");
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// A block of n bytes, and whether it still has the content it got: its ends and one byte in each
// 512 between them.
static inline void fill(void *block, size_t n, uint64_t seed) {
    unsigned char *bytes = (unsigned char *)block;
    for (size_t i = 0; i < n; i += i < 64 || n - i <= 64 ? 1 : n - i < 576 ? n - i - 64 : 512)
        bytes[i] = (unsigned char)(seed + i * 31);
}

static inline bool intact(const void *block, size_t n, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)block;
    for (size_t i = 0; i < n; i += i < 64 || n - i <= 64 ? 1 : n - i < 576 ? n - i - 64 : 512)
        if (bytes[i] != (unsigned char)(seed + i * 31))
            return false;
    return true;
}

// Allocates, reallocates and frees blocks of all sizes up to `most`, and checks what is in them.
static inline void churn(long operations, size_t most, uint64_t seed) {
    enum { SLOTS = 64 };
    struct {
        void *block;
        size_t n;
        uint64_t seed;
    } slots[SLOTS];
    memset(slots, 0, sizeof slots);
    for (long i = 0; i < operations + SLOTS; i++) {
        uint64_t dice = next(&seed);
        unsigned at = i < operations ? (unsigned)(dice % SLOTS) : (unsigned)(i - operations);
        PROMISE(intact(slots[at].block, slots[at].n, slots[at].seed),
                "a block of %zu bytes lost its content", slots[at].n);
        size_t n = most >> (dice >> 8) % 24;
        n = i < operations ? n / 2 + (dice >> 16) % (n / 2 + 1) : 0;
        if ((dice & 64) != 0 && n > 0) {
            void *moved = realloc(slots[at].block, n);
            size_t kept = slots[at].n < n ? slots[at].n : n;
            PROMISE(moved != NULL, "realloc to %zu bytes: %s", n, strerror(errno));
            PROMISE(intact(moved, kept < 64 ? kept : 64, slots[at].seed) || kept < slots[at].n,
                    "realloc to %zu bytes lost content", n);
            slots[at].block = moved;
        } else {
            free(slots[at].block);
            slots[at].block = n > 0 ? malloc(n) : NULL;
            PROMISE(n == 0 || slots[at].block != NULL, "malloc(%zu): %s", n, strerror(errno));
        }
        slots[at].n = n, slots[at].seed = dice;
        fill(slots[at].block, n, dice);
    }
}

// A thread of this until the process ends. Its pauses leave the processors to those who wait.
static inline void *churn_forever(void *seed) {
    for (uint64_t i = (uint64_t)(uintptr_t)seed;; i += 1000) {
        churn(100, 512 * KIB, i);
        usleep(100);
    }
    return NULL;
}

#endif
