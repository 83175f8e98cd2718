#include "base/worker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <threads.h>
#include <time.h>

#include "base/calls.h"
#include "base/lock.h"

/* Enough for the program's exit handlers: a worker that outlives all other threads runs them. */
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

/* The C library's number of the thread is part of its CPU clock's id. */
bool hk_has_own_number(void) {
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) != 0 ||
           ~(clock >> 3) == HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_gettid)));
}

/* Without an own number, a vfork's child has its parent's memory, a child made without the C
 * library's fork its own. */
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
    if (policy == SCHED_FIFO || policy == SCHED_RR) /* most processes need not write to the page */
        has_real_time_priority = true;
}

atomic_uint hk_workers;

typedef void run_t(void);

static void *work(void *run) {
    const struct sched_param none = {0};
    hk_add_relaxed(&hk_workers, 1u);
    if (has_real_time_priority)
        (void)HK_CALL(other, syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none));
    ((run_t *)run)();
    hk_sub_relaxed(&hk_workers, 1u);
    return NULL;
}

static int work_as_c11_has_it(void *run) {
    work(run);
    return 0;
}

/* Whether the program or a preloaded tool has replaced pthread_create(). This thread may hold a
 * lock of the replacement's already: the C library allocates while it makes a thread for it, and
 * that may lead here. The C library's own pthread_create() lies near its thrd_create(). */
static bool is_replaced(void) {
    enum { NEAR = 64 * HK_KIB };
    return !HK_NO_OVERRIDE && (uintptr_t)pthread_create - (uintptr_t)thrd_create + NEAR > 2 * NEAR;
}

/* A small stack has no room for large thread-local storage of the program; then a thread with the
 * usual stack is made. The attributes need no destroying, which saves the loader a name to look
 * up. */
static int create(run_t *run) {
    int error = EINVAL;
    for (unsigned usual = 0; usual < 2 && error == EINVAL; usual++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (usual == 0)
            pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_t thread;
        error = HK_COUNTED(other, pthread_create(&thread, &attributes, work, (void *)run));
    }
    return error;
}

/* C11's functions are hardly ever replaced, but always give the usual stack. */
static int create_past_others(run_t *run) {
    thrd_t thread;
    if (HK_COUNTED(other, thrd_create(&thread, work_as_c11_has_it, (void *)run)) != thrd_success)
        return EAGAIN;
    thrd_detach(thread);
    return 0;
}

int hk_worker_start(run_t *run) {
    hk_assert(run != NULL && hk_lock_may_take(HK_RANK_WRITING)); /* i.e. holds no lock at all */
    const uint64_t before = hk_signals_block(HK_SIGNALS_FROM_OUTSIDE);
    const int error = is_replaced() ? create_past_others(run) : create(run);
    hk_signals_block(before);
    return error;
}
