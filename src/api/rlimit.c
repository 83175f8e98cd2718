/* setrlimit and prlimit as the system has them, and one thing more: a process that limits its own
 * address space gets back the part of it that the flat page map occupies
 * (docs/decisions/0012-bounded-memory.md). Makes the system call itself: the C library's functions
 * do no more, and looking them up is not safe between a fork and exec. */
#undef _FILE_OFFSET_BITS /* or setrlimit means setrlimit64, which is here too */
#include <sys/resource.h>
#include <sys/types.h>

#include "api/api.h"
#include "base/calls.h"
#include "base/worker.h"
#include "front/boundary.h"

#if !HK_NO_OVERRIDE

#ifdef __GLIBC__
typedef __rlimit_resource_t resource_t;
#else
typedef int resource_t;
#endif

/* True also for the number of any thread of the process: prlimit accepts those too. */
static bool is_of_this_process(pid_t pid) {
    const uint64_t own = HK_CALL(other, getpid());
    return pid == 0 || HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_tgkill, own, pid, 0))) == 0;
}

/* The system call is the program's and so not counted. The callees ask the system for the new
 * limit: `limit` may be overwritten by now, for `before` may point to the same struct. */
static int set_limit(pid_t pid, resource_t resource, const void *limit, void *before) {
    const int result = (int)syscall(SYS_prlimit64, pid, resource, limit, before);
    if (result != 0 || limit == NULL || !is_of_this_process(pid))
        return result;
    if (resource == RLIMIT_AS)
        hk_addresses_limited(hk_is_own_memory());
    else if (resource == RLIMIT_DATA && hk_is_own_memory())
        hk_data_limited();
    return result;
}

#define LIMITS(setrlimit, prlimit, rlimit)                                                         \
    HK_EXPORT int setrlimit(resource_t resource, const struct rlimit *limit) {                     \
        return set_limit(0, resource, limit, NULL);                                                \
    }                                                                                              \
    HK_EXPORT int prlimit(pid_t pid, resource_t resource, const struct rlimit *limit,              \
                          struct rlimit *before) {                                                 \
        return set_limit(pid, resource, limit, before);                                            \
    }
LIMITS(setrlimit, prlimit, rlimit)

/* glibc has separate names for 64-bit limits, which are the same here. */
#ifdef __GLIBC__
_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "as the system has it");
LIMITS(setrlimit64, prlimit64, rlimit64)
#endif

#endif
