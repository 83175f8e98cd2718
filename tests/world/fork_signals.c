// A signal handler forks, while its own thread forks or allocates; another process sends signals all the time. Nobody waits
// for himself. (With two threads some C libraries' own lock is in the way.) "returns": the handlers' children go on where
// the handler interrupted the program.
#include "process.h"

#include <stdatomic.h>

enum { FORKS = 1000, SIGNALS = 20, BLOCKS = 200 };

static atomic_uint handled;
static volatile sig_atomic_t is_child;
static bool returns;

// What the others' children may do is little.
static void fork_one(bool goes_on) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0 && goes_on)
        is_child = 1;
    else if (child == 0)
        _exit(0);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK(status == 0, "a child ended with %d", status);
}

static void fork_too(int number) {
    (void)number;
    const int saved = errno;
    fork_one(returns);
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

int main(int argc, char **argv) {
    world_begin(120);
    returns = argc > 1 && strcmp(argv[1], "returns") == 0;
    CHECK(signal(SIGUSR1, fork_too) != SIG_ERR, "signal: %s", strerror(errno));
    const pid_t sender = send_signals();
    for (unsigned i = 0; i < FORKS || atomic_load(&handled) < SIGNALS; i++) {
        if (!returns)
            fork_one(false);
        for (unsigned n = 0; n < (returns ? BLOCKS : 1); n++) {
            void *volatile p = malloc(i);
            free(p);
        }
        if (is_child)
            _exit(0);
    }
    // The last one may have come since then, and its child be here.
    CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR, "signal: %s", strerror(errno));
    if (is_child)
        _exit(0);
    CHECK(kill(sender, SIGKILL) == 0, "kill: %s", strerror(errno));
    process_wait(sender);
}
