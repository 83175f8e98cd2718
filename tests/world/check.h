// What every world test needs first: CHECK, the proof that it runs on the allocator it is meant to
// test, and a watchdog. Nothing here allocates once a check has failed: the heap may be broken.
#ifndef WORLD_CHECK_H
#define WORLD_CHECK_H

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORLD_SKIPPED 77 // ctest SKIP_RETURN_CODE

__attribute__((format(printf, 1, 0))) static inline void world_vsay(const char *fmt, va_list ap) {
    char text[512];
    int len = vsnprintf(text, sizeof text - 1, fmt, ap);
    if (len < 0)
        return;
    size_t n = (size_t)len < sizeof text - 1 ? (size_t)len : sizeof text - 2;
    text[n] = '\n';
    ssize_t written = write(STDERR_FILENO, text, n + 1);
    (void)written;
}

__attribute__((format(printf, 1, 2))) static inline void world_say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    world_vsay(fmt, ap);
    va_end(ap);
}

__attribute__((format(printf, 5, 6))) static inline void
world_check_failed(bool fatal, const char *file, int line, const char *cond, const char *fmt, ...) {
    world_say("%s:%d: %s: %s", file, line, fatal ? "CHECK failed" : "note, not on this allocator",
              cond);
    va_list ap;
    va_start(ap, fmt);
    world_vsay(fmt, ap);
    va_end(ap);
    if (fatal)
        _exit(1);
}

// The contract of malloc(3): holds for every allocator.
#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            world_check_failed(true, __FILE__, __LINE__, #cond, __VA_ARGS__);                      \
    } while (0)

// A promise of hakmem that other allocators may break: there it only prints a note.
#define CHECK_OURS(cond, ...)                                                                      \
    do {                                                                                           \
        if (!(cond))                                                                               \
            world_check_failed(world_on_hakmem(), __FILE__, __LINE__, #cond, __VA_ARGS__);         \
    } while (0)

// Sets a function pointer to an optional symbol, or NULL. memcpy, because ISO C has no cast for it.
#define WORLD_FIND(function, name)                                                                 \
    do {                                                                                           \
        void *found = dlsym(RTLD_DEFAULT, name);                                                   \
        memcpy(&(function), &found, sizeof found);                                                 \
    } while (0)

static inline bool world_on_hakmem(void) {
    int (*serving)(void);
    WORLD_FIND(serving, "hak_is_serving");
    return serving != NULL && serving() == 1;
}

// A deadlock must end as a failure (SIGALRM), not as a hung build. The seconds are what a quiet machine never needs; one
// that is slow, or busy with much else, may take ten times as long.
static inline void watchdog(unsigned seconds) { alarm(10 * seconds); }

// First line of every main: a test that silently ran on another allocator proves nothing.
static inline void world_begin(unsigned watchdog_seconds) {
    const char *want = getenv("HK_WORLD_EXPECT");
    if (want != NULL && strcmp(want, "hakmem") == 0)
        CHECK(world_on_hakmem(), "HK_WORLD_EXPECT=hakmem, but malloc is not hakmem's");
    watchdog(watchdog_seconds);
}

__attribute__((noreturn)) static inline void world_skip(const char *why) {
    world_say("SKIPPED: %s", why);
    _exit(WORLD_SKIPPED);
}

#endif
