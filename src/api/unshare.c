/* unshare and setns as the system has them. The system refuses some requests (a user namespace,
 * say) to a process of several threads, and a program whose own threads have ended does not know of
 * the purger: if a request is refused, the purger is ended first. An allocation starts it again.
 * Makes the system call itself: the C library's functions do no more. */
#include <sched.h>

#include "api/api.h"
#include "base/calls.h"
#include "base/worker.h"
#include "os/os.h"
#include "policy/purger.h"

#if !HK_NO_OVERRIDE

/* The system call is the program's and so not counted. After the purger's stop the request is
 * repeated until the system has removed its thread, on a busy machine some milliseconds later; a
 * request that is refused for another reason fails again then. The wait is bounded, because a
 * signal handler may have interrupted something that the purger waits for. A child made without the
 * C library's fork does not wait: it has none of its parent's threads. */
static int ask(long call, int first, int second) {
    enum { LONG_MS = 5000 };
    _Atomic uint32_t nobody_wakes = 0; /* atomic: futex word, for the timeout only */
    const int saved = errno;
    int result = (int)syscall(call, first, second);
    if (result == 0 || errno != EINVAL ||
        !(hk_load_seq(&hk_purger_runs) || hk_purger_is_ending()) || !hk_has_own_number())
        return result;
    hk_purger_stop();
    bool ending = true;
    for (unsigned ms = 0; ending && result != 0 && errno == EINVAL && ms < LONG_MS; ms++) {
        hk_os_wait(&nobody_wakes, 0, 1);
        ending = hk_purger_is_ending();
        result = (int)syscall(call, first, second);
    }
    if (result == 0)
        errno = saved;
    return result;
}

HK_EXPORT int unshare(int what) { return ask(SYS_unshare, what, 0); }

HK_EXPORT int setns(int fd, int kind) { return ask(SYS_setns, fd, kind); }

#endif
