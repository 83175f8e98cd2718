// Started without the standard descriptors, or once all are closed, the allocator uses no other's.
#include "promise.h"

#include <fcntl.h>
#include <sys/mman.h>

static void *work(void *seed) {
    churn(scaled(50000, 5000), 4 * MIB, (uint64_t)(uintptr_t)seed);
    return NULL;
}

// Files of ours under every low number: what is written there, or closed, was not the allocator's.
static int in_foreign_files(void) {
    close_range(0, ~0U, 0);
    for (int i = 0; i < 20; i++)
        if (memfd_create("ours", 0) != i)
            return 3;
    pthread_t thread = start(work, (void *)(uintptr_t)1);
    work((void *)(uintptr_t)2);
    pthread_join(thread, NULL);
    malloc_trim(0);
    for (int i = 0; i < 20; i++)
        if (lseek(i, 0, SEEK_END) != 0)
            return 4;
    return open("/dev/null", O_RDONLY) == 20 ? 0 : 5;
}

int main(int argc, char **argv) {
    if (begin(argc, argv) != NULL)
        _exit(in_foreign_files());
    pid_t pid = child();
    if (pid == 0) {
        close_range(0, 2, 0);
        execl("/proc/self/exe", "again", "--stage=closed", fast ? "--fast" : NULL, NULL);
        _exit(NOT_CHECKED);
    }
    int status = wait_for(pid);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    PROMISE(code != 4, "the allocator wrote to, or closed, a file that is not its own");
    PROMISE(code != 5, "the allocator left a descriptor open");
    must_end_well(status, "a process without descriptors");
    return 0;
}
