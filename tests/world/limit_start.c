// A process that may map nothing at all: malloc answers NULL and ENOMEM, and one line on stderr
// says why the program cannot go on. A request that no limit could serve is no reason for it.
#include "process.h"

#include <sys/resource.h>

static const char said[] =
    "hakmem: warning: no memory: the system refuses this process its first mapping";

// Whatever has been mapped so far stays; nothing of it is the allocator's.
static int be_refused(void) {
    struct rlimit none = {0, 0};
    CHECK(malloc((size_t)-1 / 4) == NULL, "a quarter of all addresses");
    CHECK(setrlimit(RLIMIT_AS, &none) == 0, "setrlimit");
    for (int i = 0; i < 3; i++) {
        errno = 0;
        CHECK(malloc(100) == NULL && errno == ENOMEM, "malloc(100): errno %d", errno);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "refused") == 0)
        return be_refused();
    world_begin(20);
    int ends[2];
    char text[4096] = "";
    size_t len = 0;
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl("/proc/self/exe", "limit_start", "refused", (char *)NULL);
        _exit(126);
    }
    close(ends[1]);
    for (ssize_t n;
         len < sizeof text - 1 && (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    int status = process_wait(child);
    CHECK(status == 0, "status 0x%x: %s", status, text);
    const char *line = strstr(text, said);
    CHECK_OURS(line == text, "it says: %s", text);
    CHECK_OURS(strstr(text + 1, said) == NULL, "it says so twice: %s", text);
    return 0;
}
