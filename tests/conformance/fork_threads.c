// A process with eight threads that allocate can fork ten thousand times, and children allocate.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    for (uintptr_t i = 1; i <= 8; i++)
        start(churn_forever, (void *)i);
    for (long i = 0; i < scaled(10000, 120); i++) {
        pid_t pid = child();
        if (pid == 0) {
            churn(100, 128 * KIB, (uint64_t)i + 1);
            _exit(0);
        }
        int status = wait_for(pid);
        if (status != 0)
            fprintf(stderr, "child %ld: ", i);
        must_end_well(status, "a child");
    }
    return 0;
}
