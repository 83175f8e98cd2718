#include "base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/calls.h"
#include "base/lock.h"

/* A worker that outlives all other threads runs the program's exit handlers on it. */
#define STACK_BYTES (256 * HK_KIB)

/* Signals that a thread causes itself. To block them is to die of them; a sandbox answers system
 * calls with SIGSYS. */
static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

/* A small stack has no room for a program's thread-local storage where that is large; then the
 * usual one is taken. */
int hk_worker_start(void *(*run)(void *)) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    hk_assert(run != NULL && hk_lock_may_take(HK_RANK_CONFIG)); /* that is, holds none at all */
    sigfillset(&all);
    for (unsigned i = 0; i < sizeof own_faults / sizeof own_faults[0]; i++)
        sigdelset(&all, own_faults[i]);
    HK_CALL(other, pthread_sigmask(SIG_SETMASK, &all, &before));
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    /* not its creator's, which may be a real-time one */
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = HK_CALL(other, pthread_create(&thread, &attributes, run, NULL));
    if (error == EINVAL) {
        error = HK_CALL(other, pthread_create(&thread, NULL, run, NULL));
        if (error == 0)
            pthread_detach(thread);
    }
    pthread_attr_destroy(&attributes);
    HK_CALL(other, pthread_sigmask(SIG_SETMASK, &before, NULL));
    return error;
}
