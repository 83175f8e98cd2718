// The process seen from outside the heap: resident set, and children whose end is checked.
#ifndef WORLD_PROCESS_H
#define WORLD_PROCESS_H

#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

// Resident bytes of this process, read without allocating.
static inline size_t process_rss(void) {
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "/proc/self/statm: %s", strerror(errno));
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    CHECK(len > 0, "/proc/self/statm is empty");
    text[len] = '\0';
    unsigned long resident = 0;
    CHECK(sscanf(text, "%*u %lu", &resident) == 1, "/proc/self/statm: %s", text);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static inline int process_wait(pid_t pid) {
    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == pid, "waitpid: %s", strerror(errno));
    return status;
}

#define CHECK_CHILD_OK(pid, what)                                                                  \
    do {                                                                                           \
        int child_status = process_wait(pid);                                                      \
        CHECK(WIFEXITED(child_status) && WEXITSTATUS(child_status) == 0,                           \
              "%s: child ended with %s %d", (what),                                                \
              WIFSIGNALED(child_status) ? "signal" : "exit code",                                  \
              WIFSIGNALED(child_status) ? WTERMSIG(child_status) : WEXITSTATUS(child_status));     \
    } while (0)

#endif
