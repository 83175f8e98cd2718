// A misuse in a fork's child.
#pragma once

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
