// A process that locks itself into an empty folder, without /proc and /sys, goes on allocating.
#include "promise.h"

static void *work(void *seed) {
    churn(scaled(50000, 5000), 4 * MIB, (uint64_t)(uintptr_t)seed);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    char folder[] = "/tmp/conformance-XXXXXX";
    if (geteuid() != 0)
        CANNOT_CHECK("only root can chroot");
    NEED(mkdtemp(folder) != NULL && chdir(folder) == 0 && rmdir(folder) == 0, folder);
    NEED(chroot(".") == 0, "chroot");
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        threads[i] = start(work, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    malloc_trim(0);
    pid_t pid = child();
    if (pid == 0) {
        work((void *)(uintptr_t)5);
        _exit(0);
    }
    must_end_well(wait_for(pid), "a child in the empty folder");
    return 0;
}
