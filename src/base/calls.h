/* System calls of the allocator, counted by kind among its counters.
 *
 * They are counted where they are made, and so in the lowest box: os and waiting for locks lie
 * below all boxes that keep statistics. Calls that the C library makes for itself (starting a
 * thread counts as one call; its locks and streams) are not the allocator's.
 *
 * Includes the headers for flags, call numbers and errno. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/counters.h"

enum {
#define HK_CALL_KIND(kind, name, doc) HK_CALL_##kind = HK_COUNT_##name,
#include "base/counters.def"
};

/* Makes a system call and counts it: HK_COUNTED(munmap, munmap(p, bytes)). All calls of the
 * allocator's own are made so, but for a last write before abort(). Any thread, signal handlers
 * too. */
#define HK_COUNTED(kind, call)                                                                     \
    ((void)hk_add_relaxed(&hk_counters[HK_CALL_##kind], (uint64_t)1), (call))

/* The same by the call's number, because the loader looks up each name at each process start:
 * HK_CALL(other, close(fd)). By name are only calls about memory, so that a program that replaces
 * them sees them, and calls where the C library does more. None of these is a cancellation point. A
 * call made in one place only has its number there. */
#define HK_CALL(kind, call) HK_COUNTED(kind, hk_sys_##call)
#define hk_sys_open(path, ...) (int)syscall(SYS_openat, AT_FDCWD, path, __VA_ARGS__)
#define hk_sys_close(fd) (int)syscall(SYS_close, fd)
#define hk_sys_read(fd, to, n) (ssize_t) syscall(SYS_read, fd, to, n)
#define hk_sys_write(fd, from, n) (ssize_t) syscall(SYS_write, fd, from, n)
#define hk_sys_fstat(fd, to) (int)syscall(SYS_fstat, fd, to)
#define hk_sys_unlink(path) (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0)
#define hk_sys_getpid() (uint64_t) syscall(SYS_getpid)
#define hk_sys_posix_fallocate posix_fallocate
#define hk_sys_syscall (int)syscall

/* The expression's value; errno is kept. */
#define HK_KEEP_ERRNO(expression)                                                                  \
    __extension__({                                                                                \
        const int hk_saved = errno;                                                                \
        const __typeof__(expression) hk_said = (expression);                                       \
        errno = hk_saved;                                                                          \
        hk_said;                                                                                   \
    })

/* The futex, by which all waiting and waking is done. Numbers as in <linux/futex.h>, which not
 * every C library has. */
enum { HK_FUTEX_WAIT = 0 | 128, HK_FUTEX_WAKE = 1 | 128, HK_FUTEX_CMP_REQUEUE = 4 | 128 };
struct timespec;
void hk_futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *most);
