// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A fork's child finds what its parent did before.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corrupt.h"

// What a child makes of p ends this process as it ended the child.
static void end_as_child(void (*misuse)(void *), void *p) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        misuse(p);
        _exit(0);
    }
    if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
        raise(WTERMSIG(status));
}

int main(void) {
    char *p = announce(malloc(24));
    *(char *)at_offset(p, 24) = 'x';
    end_as_child(free, p);
}
