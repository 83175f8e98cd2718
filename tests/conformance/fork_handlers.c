// A program's own pthread_atfork handlers may allocate and free, while other threads do.
#include "promise.h"

static void *held = NULL;

static void before(void) {
    held = malloc(3000);
    fill(held, 3000, 1);
    churn(20, 64 * KIB, 11);
}

static void after(void) {
    PROMISE(intact(held, 3000, 1), "a block from the handler before fork changed");
    free(held);
    churn(20, 64 * KIB, 12);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    NEED((errno = pthread_atfork(before, after, after)) == 0, "pthread_atfork");
    for (uintptr_t i = 1; i <= 4; i++)
        start(churn_forever, (void *)i);
    for (long i = 0; i < scaled(2000, 100); i++) {
        pid_t pid = child();
        if (pid == 0) {
            churn(50, 64 * KIB, 13);
            _exit(0);
        }
        must_end_well(wait_for(pid), "a child");
    }
    return 0;
}
