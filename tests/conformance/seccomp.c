// In a sandbox that ends a process at any unusual system call, a warm allocator needs none.
#include "promise.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>

#define ALLOW(call)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// What an allocator may need first, then what the C library needs for itself. No openat.
static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(mmap),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(mprotect),
    ALLOW(madvise),
    ALLOW(brk),
    ALLOW(futex),
    ALLOW(gettid),
    ALLOW(read),
    ALLOW(write),
    ALLOW(close),
    ALLOW(fstat),
    ALLOW(newfstatat),
    ALLOW(lseek),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigaction),
    ALLOW(rt_sigreturn),
    ALLOW(tgkill),
    ALLOW(getrandom),
    ALLOW(set_robust_list),
    ALLOW(rseq),
    ALLOW(clone),
    ALLOW(clone3),
    ALLOW(sched_getaffinity),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
};

static void caught(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    BROKEN("the sandbox ended the process for system call %d", info->si_syscall);
}

static void *work(void *seed) {
    churn(scaled(20000, 800), 16 * MIB, (uint64_t)(uintptr_t)seed);
    return NULL;
}

static void work_of_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        threads[i] = start(work, (void *)(i + 1));
    work((void *)(uintptr_t)5);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    malloc_trim(0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    work_of_threads(); // a sandbox is entered after the start: what is opened once was opened
    NEED(sigaction(SIGSYS, &action, NULL) == 0, "sigaction");
    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
    work_of_threads();
    churn(1000, MIB, 6);
    return 0;
}
