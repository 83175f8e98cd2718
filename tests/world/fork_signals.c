// A signal handler forks, while its own thread forks or allocates; another process sends signals all the time. Nobody waits
// for himself. (With two threads some C libraries' own lock is in the way.)
#include "process.h"

#include <stdatomic.h>

enum { FORKS = 1000, SIGNALS = 20 };

static atomic_uint handled;

// The children do nothing: what they may do is little.
static void fork_one(void) {
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void fork_too(int number) {
    (void)number;
    const int saved = errno;
    fork_one();
    atomic_fetch_add(&handled, 1);
    errno = saved;
}

static pid_t send_signals(void) {
    const pid_t receiver = getpid(), sender = fork();
    CHECK(sender >= 0, "fork: %s", strerror(errno));
    while (sender == 0) {
        usleep(500);
        if (getppid() != receiver || kill(receiver, SIGUSR1) != 0)
            _exit(0);
    }
    return sender;
}

int main(void) {
    world_begin(120);
    CHECK(signal(SIGUSR1, fork_too) != SIG_ERR, "signal: %s", strerror(errno));
    const pid_t sender = send_signals();
    for (unsigned i = 0; i < FORKS || atomic_load(&handled) < SIGNALS; i++) {
        fork_one();
        void *volatile p = malloc(i);
        free(p);
    }
    CHECK(kill(sender, SIGKILL) == 0, "kill: %s", strerror(errno));
    process_wait(sender);
}
