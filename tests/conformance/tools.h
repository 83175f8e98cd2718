// A tool that runs this very program under the allocator, and what it wrote.
#ifndef CONFORMANCE_TOOLS_H
#define CONFORMANCE_TOOLS_H

#include "promise.h"

typedef struct {
    int status; // of waitpid
    char text[64 * KIB];
} said_t;

// Where a file beside this program lies; a name without a slash is this program itself.
static inline const char *beside(const char *name) {
    static char path[4096];
    memset(path, 0, sizeof path);
    NEED(readlink("/proc/self/exe", path, sizeof path - 64) > 0, "/proc/self/exe");
    if (strchr(name, '/') != NULL)
        strcpy(strrchr(path, '/'), name);
    return path;
}

// Runs a command to its end. Not `preloaded`: the command must care for the allocator itself.
static inline void run_tool(said_t *said, bool preloaded, const char *const *command) {
    int out[2];
    size_t length = 0;
    ssize_t got;
    memset(said, 0, sizeof *said);
    NEED(pipe(out) == 0, "pipe");
    pid_t pid = fork();
    NEED(pid >= 0, "fork");
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO), dup2(out[1], STDERR_FILENO);
        close(out[0]), close(out[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!preloaded)
            unsetenv("LD_PRELOAD");
        execvp(command[0], (char *const *)(uintptr_t)command);
        _exit(NOT_CHECKED);
    }
    close(out[1]);
    while ((got = read(out[0], said->text + length, sizeof said->text - 1 - length)) > 0)
        length += (size_t)got;
    close(out[0]);
    said->status = wait_for(pid);
    if (WIFEXITED(said->status) && WEXITSTATUS(said->status) == NOT_CHECKED)
        CANNOT_CHECK("%s is not installed", command[0]);
    if (strstr(said->text, "ptrace: Operation not permitted") != NULL)
        CANNOT_CHECK("ptrace is not permitted here");
}

// The line in which a word occurs, for a message.
static inline const char *line_with(said_t *said, const char *word) {
    char *at = strstr(said->text, word);
    if (at == NULL)
        return "it said nothing of the kind";
    while (at > said->text && at[-1] != '\n')
        at--;
    at[strcspn(at, "\n")] = '\0';
    return at;
}

#endif
