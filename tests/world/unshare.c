// unshare: what the system grants only to a process of one thread a program gets whose own threads have ended, though one of
// hakmem's may be there; beside a thread of the program's it is refused.
#include "lean.h"
#include "sandbox.h"

#include <sched.h>
#include <signal.h>
#include <ucontext.h>

static pid_t grower;

static void *grow(void *unused) {
    grower = (pid_t)syscall(SYS_gettid);
    heap_t heap = heap_grow(20 * MIB, 1);
    CHECK_OURS(tasks_now().threads == 2 || tasks_now().purger != 0, "no second thread");
    heap_free(&heap);
    return unused;
}

static void have_had_company(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, grow, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    while (syscall(SYS_tgkill, getpid(), grower, 0) == 0)
        sched_yield(); // joined, it may be one of the process for a little longer
}

static int in_child(int what) {
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0)
        _exit(unshare(what) == 0 ? 0 : 1);
    return process_wait(child);
}

// Made past the C library's fork, a child has none of its parent's threads, though it may have their memory of them.
static int in_raw_child(int what) {
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    CHECK(child >= 0, "clone: %s", strerror(errno));
    if (child == 0)
        _exit(unshare(what) == 0 ? 0 : errno);
    return WEXITSTATUS(process_wait(child));
}

// Each call of the system in vain, and those that no thread of hakmem's can have been the reason for.
static unsigned asked, asked_alone;

static void on_unshare(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    asked++;
    asked_alone += tasks_now().purger == 0;
    ucontext_t *is = context;
#ifdef __x86_64__
    is->uc_mcontext.gregs[REG_RAX] = -EINVAL;
#else
    is->uc_mcontext.regs[0] = (unsigned long long)-EINVAL;
#endif
}

// What the system refuses whatever threads there are is asked for no longer than a thread of hakmem's is there, and once more.
static int refused_beside_a_purger(void) {
    struct sigaction action = {.sa_sigaction = on_unshare, .sa_flags = SA_SIGINFO};
    have_had_company();
    CHECK_OURS(tasks_now().purger != 0, "no purger");
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "sigaction");
    sandbox_answers(SYS_unshare, SECCOMP_RET_TRAP);
    CHECK(unshare(1) == -1 && errno == EINVAL, "unshare(1): %s", strerror(errno));
    CHECK_OURS(asked_alone >= 1, "the purger has not ended after %u calls", asked);
    CHECK(asked_alone <= 2, "%u calls of %u after the purger has ended", asked_alone, asked);
    return 0;
}

int main(void) {
    enum { WHAT = CLONE_NEWUSER | CLONE_NEWNS, ODD = 12345 };
    world_begin(60);
    if (in_child(WHAT) != 0)
        world_skip("no user namespace may be made here");

    // Before there is any thread, and with nothing that can be granted.
    errno = ODD;
    CHECK(unshare(0) == 0 && errno == ODD, "unshare(0): %s", strerror(errno));
    CHECK(unshare(1) == -1 && errno == EINVAL, "unshare(1): %s", strerror(errno));
    CHECK(setns(-1, CLONE_NEWNS) == -1 && errno == EBADF, "setns(-1): %s", strerror(errno));

    // Memory that stays in use keeps the thread there.
    heap_t heap = heap_grow(40 * MIB, 2);
    have_had_company();
    CHECK_OURS(tasks_now().purger != 0, "no purger");
    CHECK(unshare(1) == -1 && errno == EINVAL, "unshare(1): %s", strerror(errno));
    const pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0)
        _exit(refused_beside_a_purger());
    CHECK(process_wait(child) == 0, "of what is refused in any case");
    have_had_company();
    CHECK(in_raw_child(1) == EINVAL, "what is refused was granted to a child past fork");
    CHECK(in_raw_child(WHAT) == 0, "what is granted was refused to a child past fork");
    errno = ODD;
    CHECK(unshare(WHAT) == 0 && errno == ODD, "unshare: %s", strerror(errno));

    have_had_company();
    const int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "/proc/self/ns/mnt: %s", strerror(errno));
    errno = ODD;
    CHECK(setns(fd, CLONE_NEWNS) == 0 && errno == ODD, "setns: %s", strerror(errno));
    close(fd);

    have_company();
    heap_t more = heap_grow(20 * MIB, 3);
    CHECK(unshare(CLONE_NEWUSER) == -1 && errno == EINVAL, "beside a thread: %s", strerror(errno));
    heap_free(&more);
    more = heap_grow(20 * MIB, 4);
    if (world_on_hakmem())
        await_purger(true);
    heap_check(&heap);
    heap_check(&more);
    heap_free(&heap);
    heap_free(&more);
    return 0;
}
