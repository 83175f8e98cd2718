// A process that limits its own address space can still use 90 % of what it can on the C library.
#include "limits.h"

int main(int argc, char **argv) {
    const char *kind = begin(argc, argv);
    if (kind != NULL) {
        churn(1000, 64 * KIB, 2); // it has allocated before
        struct rlimit limit = {300000 * KIB, 300000 * KIB};
        NEED(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
        answer(usable_in(kind, SIZE_MAX));
    }
    keeps_usable((again_t){0}, "ulimit -v 300000");
    return 0;
}
