// A process that may map nothing at all: malloc answers NULL and ENOMEM, and one line on stderr
// says why the program cannot go on. A request that no limit could serve is no reason for it. And one whose limit leaves
// little beside the page map has the room for its own mappings and threads that it would have with the C library.
#include "process.h"

#include <pthread.h>
#include <sys/mman.h>
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

static void *nothing(void *unused) { return unused; }

static int have_room(void) {
    void *first = malloc(100);
    void *p = mmap(NULL, 1024 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    CHECK(first != NULL && p != MAP_FAILED, "mmap: %s", strerror(errno));
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    free(first);
    return 0;
}

// It has blocks, if only large ones, which under secure are no regions.
static int use_up(void) {
    unsigned served = 0;
    for (char *p; (p = malloc(50000)) != NULL; served++)
        *p = 1;
    CHECK(served > 100, "%u blocks were served", served);
    return 0;
}

// This program again, with its addresses limited; what it says on stderr.
static const char *start(const char *what, rlim_t limit) {
    static char text[4096];
    int ends[2];
    size_t len = 0;
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setrlimit(RLIMIT_AS, &(struct rlimit){limit, RLIM_INFINITY});
        execl("/proc/self/exe", "limit_start", what, (char *)NULL);
        _exit(126);
    }
    close(ends[1]);
    for (ssize_t n;
         len < sizeof text - 1 && (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(ends[0]);
    text[len] = '\0';
    int status = process_wait(child);
    CHECK(status == 0, "%s: status 0x%x: %s", what, status, text);
    return text;
}

int main(int argc, char **argv) {
    if (argc == 2)
        return strcmp(argv[1], "refused") == 0   ? be_refused()
               : strcmp(argv[1], "used up") == 0 ? use_up()
                                                 : have_room();
    world_begin(20);
    const char *text = start("refused", RLIM_INFINITY), *line = strstr(text, said);
    CHECK_OURS(line == text, "it says: %s", text);
    CHECK_OURS(strstr(text + 1, said) == NULL, "it says so twice: %s", text);
    text = start("room", 2300 * MIB);
    CHECK(text[0] == '\0', "it says: %s", text);
    setenv("HAKMEM_PROFILE", "secure", 1);
    text = start("used up", 300 * MIB);
    CHECK(text[0] == '\0', "it says: %s", text);
    return 0;
}
