#include "base/worker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "base/calls.h"
#include "base/lock.h"

/* A worker that outlives all other threads runs the program's exit handlers on it. */
#define STACK_BYTES (256 * HK_KIB)

#define BIT(number) ((uint64_t)1 << ((number)-1))
#ifdef __GLIBC__
#define OF_THE_C_LIBRARY (BIT(32) | BIT(33))
#else
#define OF_THE_C_LIBRARY (BIT(32) | BIT(33) | BIT(34))
#endif
#define CAUSED (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS))

uint64_t hk_signals_block(uint64_t which) {
    uint64_t before = 0;
    if (which == HK_SIGNALS_FROM_OUTSIDE)
        which &= ~(CAUSED | OF_THE_C_LIBRARY);
    (void)HK_KEEP_ERRNO(
        HK_CALL(other, syscall(SYS_rt_sigprocmask, SIG_SETMASK, &which, &before, sizeof which)));
    return before;
}

/* That it has for the C library is in the number of its clock. */
bool hk_has_own_number(void) {
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) != 0 ||
           ~(clock >> 3) == HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_gettid)));
}

/* Of those that have not, the child of vfork has its parent's memory, one made past the C library's fork its own. */
bool hk_is_own_memory(void) {
    enum { MEMORY = 1 }; /* KCMP_VM of <linux/kcmp.h>, which not all C libraries can include */
    if (hk_has_own_number())
        return true;
    const uint64_t own = HK_CALL(other, getpid());
    const int parent = HK_CALL(other, syscall(SYS_getppid));
    return HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_kcmp, own, parent, MEMORY, 0, 0))) > 0;
}

static bool has_real_time_priority;

void hk_worker_begin(void) {
    const int policy = HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_sched_getscheduler, 0)));
    if (policy == SCHED_FIFO || policy == SCHED_RR) /* most processes are spared the page */
        has_real_time_priority = true;
}

atomic_uint hk_workers;

typedef void run_t(void);

static void *work(void *run) {
    hk_add_relaxed(&hk_workers, 1u);
    ((run_t *)run)();
    hk_sub_relaxed(&hk_workers, 1u);
    return NULL;
}

/* A small stack has no room for a program's thread-local storage where that is large; then the
 * usual one is taken. */
int hk_worker_start(run_t *run) {
    pthread_attr_t attributes;
    pthread_t thread;
    hk_assert(run != NULL && hk_lock_may_take(HK_RANK_WRITING)); /* that is, holds none at all */
    const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE);
    pthread_attr_init(&attributes);
    if (has_real_time_priority)
        pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = HK_COUNTED(other, pthread_create(&thread, &attributes, work, (void *)run));
    if (error == EINVAL || error == EPERM)
        error = HK_COUNTED(other, pthread_create(&thread, NULL, work, (void *)run));
    if (error == 0)
        pthread_detach(thread);
    pthread_attr_destroy(&attributes);
    hk_signals_block(before);
    return error;
}
