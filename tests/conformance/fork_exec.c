// Threads that fork and exec while others allocate get a child that runs.
#include "promise.h"

static void *starting(void *unused) {
    for (long i = 0; i < scaled(500, 30); i++)
        PROMISE(again((again_t){.stage = "child"}) == 42, "a program started by a thread failed");
    return unused;
}

int main(int argc, char **argv) {
    if (begin(argc, argv) != NULL) {
        churn(200, 64 * KIB, 3);
        answer(42);
    }
    pthread_t starters[3];
    for (uintptr_t i = 1; i <= 3; i++)
        start(churn_forever, (void *)i);
    for (int i = 0; i < 3; i++)
        starters[i] = start(starting, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(starters[i], NULL);
    return 0;
}
