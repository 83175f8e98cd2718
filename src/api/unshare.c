/* unshare and setns as the system has them. It refuses a process of several threads some of what they do (a user
 * namespace, say), and a program whose own threads have ended does not know of the one that gives memory back: that ends
 * first. An allocation starts it again. By the system's call, for the C library's functions do no more. */
#include <sched.h>

#include "api/api.h"
#include "base/calls.h"
#include "base/worker.h"
#include "os/os.h"
#include "policy/purger.h"

#if !HK_NO_OVERRIDE

/* The program's call, and so not one that is counted. What is refused for another reason is so again, once that thread is
 * gone: it is one of the process until the system has put it away, on a busy machine some milliseconds after its work is
 * done. A child that was made past the C library's fork waits for none: it has not got its parent's threads. And nobody
 * waits for ever: a signal handler may have interrupted what that thread waits for itself. */
static int ask(long call, int first, int second) {
    enum { LONG_MS = 5000 };
    _Atomic uint32_t nobody_wakes = 0; /* atomic: is waited on */
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
