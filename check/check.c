/* libhakmem_check.so: the C library's functions that write to memory or read it by a length, each
 * of which first sees to it that the length stays inside the block. Preloaded beside libhakmem.so; without
 * that, or where a pointer leads to no block of hakmem's, they are what they always were.
 *
 *   LD_PRELOAD=libhakmem_check.so:libhakmem.so HAKMEM_PROFILE=secure program
 *
 * A function of ours finds the next one of its name at its first call. Until dlsym() has answered, which may
 * itself copy, and in it, the few bytes there are to copy are copied one by one. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hakmem/hakmem.h"

#pragma GCC diagnostic ignored                                                                     \
    "-Wmissing-prototypes" /* their headers' attributes and macros differ */
#define EXPORT __attribute__((visibility("default")))

typedef struct _IO_FILE stream_t;
size_t strlen(const char *s);
int vsnprintf(char *to, size_t n, const char *format, va_list arguments);

extern __typeof__(hak_check_range) hak_check_range __attribute__((weak));
extern __typeof__(hak_room) hak_room __attribute__((weak));

static void check(const void *p, size_t n) {
    if (n != 0 && hak_check_range != NULL)
        hak_check_range(p, n);
}

static _Thread_local bool searching __attribute__((tls_model("initial-exec")));

/* NULL while a search is under way on this thread. */
static void *next_of(const char *name, _Atomic(void *) *known) {
    void *function = *known;
    if (function != NULL || searching)
        return function;
    searching = true;
    function = dlsym(RTLD_NEXT, name);
    searching = false;
    *known = function;
    return function;
}

/* Or the loops below would become calls of memcpy and the like. */
#define ONE_BY_ONE __asm__ volatile("" ::: "memory")

static void *copied_down(char *to, const char *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        ONE_BY_ONE;
    }
    return to;
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

/* The next function of this name, as one of the same type. */
#define NEXT(function)                                                                             \
    ({                                                                                             \
        static _Atomic(void *) known;                                                              \
        (__typeof__(&function))next_of(#function, &known);                                         \
    })

/* A function, and its form that the compiler calls where it knows how large the target is. That one
 * has checked the length already, but only against what the compiler knew. */
#define CHECKED(type, name, parameters, checks, call, otherwise)                                   \
    EXPORT type name parameters {                                                                  \
        checks;                                                                                    \
        __typeof__(&name) next = NEXT(name);                                                       \
        return next != NULL ? next call : (otherwise);                                             \
    }

typedef const void *source_t;

CHECKED(void *, memcpy, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
        (to, from, n), copied_down(to, from, n))
CHECKED(void *, memmove, (void *to, source_t from, size_t n), (check(to, n), check(from, n)),
        (to, from, n), copied(to, from, n))
CHECKED(void *, memset, (void *to, int c, size_t n), check(to, n), (to, c, n), filled(to, c, n))
CHECKED(char *, strcpy, (char *to, const char *from), check(to, strlen(from) + 1), (to, from),
        copied_down(to, from, strlen(from) + 1))
CHECKED(char *, strcat, (char *to, const char *from), check(to, strlen(to) + strlen(from) + 1),
        (to, from), (copied_down(to + strlen(to), from, strlen(from) + 1), to))
CHECKED(char *, strncpy, (char *to, const char *from, size_t n), check(to, n), (to, from, n), to)
CHECKED(ssize_t, read, (int fd, void *to, size_t n), check(to, n), (fd, to, n), -1)
CHECKED(ssize_t, recv, (int fd, void *to, size_t n, int flags), check(to, n), (fd, to, n, flags),
        -1)
CHECKED(size_t, fread, (void *to, size_t size, size_t n, stream_t *stream), check(to, size *n),
        (to, size, n, stream), 0)

CHECKED(void *, __memcpy_chk, (void *to, source_t from, size_t n, size_t room),
        (check(to, n), check(from, n)), (to, from, n, room), copied_down(to, from, n))
CHECKED(void *, __memmove_chk, (void *to, source_t from, size_t n, size_t room),
        (check(to, n), check(from, n)), (to, from, n, room), copied(to, from, n))
CHECKED(void *, __memset_chk, (void *to, int c, size_t n, size_t room), check(to, n),
        (to, c, n, room), filled(to, c, n))
CHECKED(char *, __strcpy_chk, (char *to, const char *from, size_t room),
        check(to, strlen(from) + 1), (to, from, room), to)
CHECKED(char *, __strcat_chk, (char *to, const char *from, size_t room),
        check(to, strlen(to) + strlen(from) + 1), (to, from, room), to)
CHECKED(char *, __strncpy_chk, (char *to, const char *from, size_t n, size_t room), check(to, n),
        (to, from, n, room), to)
CHECKED(ssize_t, __read_chk, (int fd, void *to, size_t n, size_t room), check(to, n),
        (fd, to, n, room), -1)
CHECKED(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags), check(to, n),
        (fd, to, n, room, flags), -1)
CHECKED(size_t, __fread_chk, (void *to, size_t room, size_t size, size_t n, stream_t *stream),
        check(to, size *n), (to, room, size, n, stream), 0)

/* How long the text is only printing tells. So it is printed into what there is of the block first,
 * and only where that does not hold it, nor the program's own bound it, there is something to say. */
static int print(char *to, size_t n, const char *format, va_list arguments) {
    const size_t room = n != 0 && hak_room != NULL ? hak_room(to) : SIZE_MAX;
    const int length = vsnprintf(to, n < room ? n : room, format, arguments);
    if (n > room && length >= 0 && (size_t)length >= room)
        check(to, (size_t)length < n ? (size_t)length + 1 : n);
    return length;
}

EXPORT int snprintf(char *to, size_t n, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = print(to, n, format, arguments);
    va_end(arguments);
    return length;
}

EXPORT int __snprintf_chk(char *to, size_t n, int flag, size_t room, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)flag;
    const int length = print(to, n < room ? n : room, format, arguments);
    va_end(arguments);
    return length;
}
