// Fifty thousand short threads, the blocks of some freed by others, leave no memory behind.
#include "promise.h"

enum { AT_ONCE = 10, BLOCKS = 30 };
static void *left[AT_ONCE][BLOCKS];

static void *work(void *at) {
    void **mine = left[(uintptr_t)at];
    for (int i = 0; i < BLOCKS; i++)
        fill(mine[i] = malloc(16 + 97 * (size_t)i), 16 + 97 * (size_t)i, (uint64_t)i);
    for (int i = 0; i < BLOCKS; i += 2)
        free(mine[i]);
    return NULL;
}

static void threads(long count) {
    for (long done = 0; done < count; done += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (uintptr_t t = 0; t < AT_ONCE; t++)
            threads[t] = start(work, (void *)t);
        for (int t = 0; t < AT_ONCE; t++) {
            pthread_join(threads[t], NULL);
            for (int i = 1; i < BLOCKS; i += 2)
                free(left[t][i]);
        }
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    threads(1000);
    size_t before = resident();
    threads(scaled(50000, 5000));
    size_t after = resident();
    PROMISE(after < before + 8 * MIB, "resident %zu KiB after 1000 threads, %zu KiB at the end",
            before / KIB, after / KIB);
    return 0;
}
