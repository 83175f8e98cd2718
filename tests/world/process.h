// The process seen from outside the heap: resident set, and children whose end is checked.
#ifndef WORLD_PROCESS_H
#define WORLD_PROCESS_H

#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

// What a file begins with, as a text, read without allocating; 0 where it cannot be read.
static inline size_t read_file(const char *path, char *text, size_t room) {
    size_t len = 0;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (got = read(fd, text + len, room - 1 - len)) > 0)
        len += (size_t)got;
    if (fd >= 0)
        close(fd);
    text[len] = '\0';
    return len;
}

// Resident bytes of this process.
static inline size_t process_rss(void) {
    char text[128];
    unsigned long resident = 0;
    read_file("/proc/self/statm", text, sizeof text);
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
