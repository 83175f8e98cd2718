// A forked child can start threads, fork again and free the blocks that it inherited.
#include "promise.h"

static void *briefly(void *seed) {
    churn(500, 128 * KIB, (uint64_t)(uintptr_t)seed);
    return NULL;
}

static void in_child(void **inherited, size_t count, bool has_child) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        threads[i] = start(briefly, (void *)(i + 1));
    for (size_t i = 0; i < count; i++) {
        PROMISE(intact(inherited[i], 10 * i, i), "an inherited block changed in the child");
        free(inherited[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    if (has_child) {
        pid_t pid = child();
        if (pid != 0)
            must_end_well(wait_for(pid), "a child's child");
        else
            churn(100, 64 * KIB, 5);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    enum { BLOCKS = 500 };
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        fill(blocks[i] = malloc(10 * i), 10 * i, i);
    for (uintptr_t i = 1; i <= 4; i++)
        start(churn_forever, (void *)i);
    for (long i = 0; i < scaled(500, 20); i++) {
        pid_t pid = child();
        if (pid == 0)
            in_child(blocks, BLOCKS, true);
        must_end_well(wait_for(pid), "a child");
    }
    return 0;
}
