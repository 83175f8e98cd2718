// A process that gives up its rights and becomes another user goes on allocating.
#include "promise.h"

#include <grp.h>

static void *work(void *seed) {
    churn(scaled(50000, 5000), 4 * MIB, (uint64_t)(uintptr_t)seed);
    return NULL;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (geteuid() != 0)
        CANNOT_CHECK("only root can become another user");
    enum { NOBODY = 65534 };
    work((void *)(uintptr_t)1);
    NEED(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        threads[i] = start(work, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    malloc_trim(0);
    return 0;
}
