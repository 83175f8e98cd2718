/* The signal handler of sampled guards passes on every signal that is not a fault of its own, as the program has asked for
 * it. Each case runs in a child, because the handler is installed once. */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "faults.h"
#include "guard/sample.h"

static void send(int number) { CHECK(kill(getpid(), number) == 0); }

static void fail(void) { *(volatile int *)hidden((void *)16) = 1; }

static void take_over(int number, void (*handler)(int), int flags) {
    enum { HANGS_S = 200 };
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK(sigaction(number, &action, NULL) == 0);
    hk_sample_handle();
    alarm(HANGS_S);
}

static void do_nothing(int number) { (void)number; }

/* The program's handler must run on the stack for which it was installed. */
static void keeps_to_its_stack(void *flags) {
    struct sigaction now;
    take_over(SIGSEGV, do_nothing, *(int *)flags);
    CHECK(sigaction(SIGSEGV, NULL, &now) == 0);
    CHECK_EQ(now.sa_flags & SA_ONSTACK, *(int *)flags & SA_ONSTACK);
    _exit(0);
}

static void sent_by_default(void *number) {
    take_over(*(int *)number, SIG_DFL, SA_SIGINFO);
    send(*(int *)number);
}

/* A sent signal whose forged address is a sample's must not be taken for a fault. */
static void sent_with_address(void *unused) {
    (void)unused;
    CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
    CHECK(hak_ctl("HAKMEM_GUARD_SAMPLE", "1", NULL, 0) == 0);
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = SI_QUEUE};
    info.si_addr = hak_malloc(100);
    CHECK(hk_sample_has(info.si_addr));
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info) == 0);
}

static void *disturb(void *reader) {
    for (unsigned i = 0; i < 50; i++) {
        CHECK(pthread_kill(*(pthread_t *)reader, SIGSEGV) == 0);
        usleep(1000);
    }
    return NULL;
}

static void *disturb_for_ever(void *reader) {
    for (;;)
        disturb(reader);
    return NULL;
}

static int written; /* a pipe's end: a write there ends the read */
static void *disturb_and_write(void *reader) {
    disturb(reader);
    CHECK(write(written, "", 1) == 1);
    return NULL;
}

/* Ignored SIGSEGVs that are sent must not interrupt a read; a real fault must end the process. */
static void sent_and_ignored(void *unused) {
    pthread_t reader = pthread_self(), other;
    int ends[2];
    (void)unused;
    CHECK(pipe(ends) == 0);
    written = ends[1];
    take_over(SIGSEGV, SIG_IGN, 0);
    CHECK(pthread_create(&other, NULL, disturb_and_write, &reader) == 0);
    CHECK(read(ends[0], &(char){0}, 1) == 1);
    pthread_join(other, NULL);
    fail();
}

/* Prints whether the signal itself and SIGUSR1 are blocked in the handler: 0 or 1 each. */
static void say_blocked(int number) {
    sigset_t blocked;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0);
    const char text[] = {(char)('0' + sigismember(&blocked, number)),
                         (char)('0' + sigismember(&blocked, SIGUSR1)), ' '};
    CHECK(write(STDOUT_FILENO, text, sizeof text) == sizeof text);
}

/* SA_RESETHAND: the handler must run once; the second signal must end the process. */
static void sent_once(void *unused) {
    (void)unused;
    take_over(SIGSEGV, say_blocked, (int)SA_RESETHAND);
    send(SIGSEGV);
    dprintf(STDOUT_FILENO, "on ");
    send(SIGSEGV);
}

/* SA_NODEFER: the handler must run each time, with its own signal not blocked. */
static void sent_often(void *unused) {
    (void)unused;
    take_over(SIGBUS, say_blocked, SA_NODEFER);
    send(SIGBUS);
    send(SIGBUS);
    raise(SIGTERM);
}

static void say_and_fail(int number) {
    say_blocked(number);
    fail();
}

/* A fault in the handler of a fault, with SA_RESETHAND, must end the process. */
static void fails_once(void *unused) {
    (void)unused;
    take_over(SIGSEGV, say_and_fail, (int)SA_RESETHAND | SA_NODEFER);
    fail();
}

/* Without SA_RESTART, a sent signal that the program handles must interrupt a read. Signals are sent until one does: the first
 * ones may come before the read. */
static void interrupts(void *unused) {
    pthread_t reader = pthread_self(), other;
    int ends[2];
    (void)unused;
    CHECK(pipe(ends) == 0);
    take_over(SIGSEGV, do_nothing, 0);
    CHECK(pthread_create(&other, NULL, disturb_for_ever, &reader) == 0);
    CHECK(read(ends[0], &(char){0}, 1) == -1 && errno == EINTR);
    _exit(0);
}

/* fn must end its process by that signal; the output must be `said`, without a report of hakmem's. */
static void check_end(void (*fn)(void *), int number, const char *said) {
    static child_t child;
    child_run(&child, fn, &number);
    CHECK_TEXT(child.text, said);
    CHECK(WIFSIGNALED(child.status));
    CHECK_EQ(WTERMSIG(child.status), (unsigned)number);
}

int main(void) {
    static child_t child;
    check_end(sent_by_default, SIGSEGV, "");
    check_end(sent_by_default, SIGBUS, "");
    check_end(sent_with_address, SIGSEGV, "");
    check_end(sent_and_ignored, SIGSEGV, "");
    check_end(sent_once, SIGSEGV, "11 on ");
    check_end(sent_often, SIGTERM, "01 01 ");
    check_end(fails_once, SIGSEGV, "01 ");
    child_run(&child, interrupts, NULL);
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    for (int i = 0; i < 2; i++) {
        int flags = i * SA_ONSTACK;
        child_run(&child, keeps_to_its_stack, &flags);
        CHECK_TEXT(child.text, "");
        CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
    }
}
