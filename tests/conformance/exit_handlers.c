// Handlers at exit may allocate and free, and free what was allocated before, with threads alive.
#include "promise.h"

static void *early[100];

static void late(void) {
    for (size_t i = 0; i < 100; i++) {
        PROMISE(intact(early[i], 50 * i, i), "a block changed before exit");
        free(early[i]);
    }
    churn(200, 4 * MIB, 21);
}

__attribute__((destructor)) static void last(void) { churn(200, 256 * KIB, 22); }

int main(int argc, char **argv) {
    if (begin(argc, argv) == NULL) {
        for (long i = 0; i < scaled(200, 20); i++)
            PROMISE(again((again_t){.stage = "exit"}) == 7, "a process did not end well");
        return 0;
    }
    dprintf(STDOUT_FILENO, "7\n");
    for (int i = 0; i < 5; i++)
        atexit(i == 0 ? late : last);
    for (size_t i = 0; i < 100; i++)
        fill(early[i] = malloc(50 * i), 50 * i, i);
    for (uintptr_t i = 1; i <= 3; i++)
        start(churn_forever, (void *)i);
    exit(0);
}
