/* How often the allocator has called the system, by kind: the kinds are among its counters.
 *
 * Counted where the call is made, and so in the lowest box: os and the locks' waiting are below
 * every box that keeps statistics. What the C library calls on its own account (to start a thread,
 * which is one call here; for its locks and streams) is not the allocator's.
 *
 * What a call's arguments and results are named by (flags, numbers, errno) comes along with this. */
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

/* Makes a call of the system and counts it: HK_COUNTED(munmap, munmap(p, bytes)). None is made
 * otherwise. Any thread, signal handlers too. */
#define HK_COUNTED(kind, call)                                                                     \
    ((void)hk_add_relaxed(&hk_counters[HK_CALL_##kind], (uint64_t)1), (call))

/* The same by the call's number, for the loader looks up each name at each start of a process: HK_CALL(other,
 * close(fd)). By name is only what is about memory, so that who replaces that hears of it, and where the C library does
 * more. In none of these can a thread be cancelled. What one place calls has its number there. */
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

/* What the expression says; errno is kept. */
#define HK_KEEP_ERRNO(expression)                                                                  \
    __extension__({                                                                                \
        const int hk_saved = errno;                                                                \
        const __typeof__(expression) hk_said = (expression);                                       \
        errno = hk_saved;                                                                          \
        hk_said;                                                                                   \
    })

/* The system's futex, by which everybody here waits and wakes. Numbers as <linux/futex.h> has them, which does not
 * come with every C library's headers. */
enum { HK_FUTEX_WAIT = 0 | 128, HK_FUTEX_WAKE = 1 | 128, HK_FUTEX_CMP_REQUEUE = 4 | 128 };
struct timespec;
void hk_futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *most);
