// Started below a limit of address space, a process can use 90 % of what it can on the C library.
#include "limits.h"

int main(int argc, char **argv) {
    const char *kind = begin(argc, argv);
    if (kind != NULL)
        answer(usable_in(kind, SIZE_MAX));
    const rlim_t limits[] = {65536, 300000, 2150000, 3000000, 4000000};
    for (long i = 0; i < scaled(5, 2); i++) {
        char where[40];
        snprintf(where, sizeof where, "ulimit -v %lu", limits[i]);
        keeps_usable((again_t){.resource = RLIMIT_AS, .limit = limits[i] * KIB}, where);
    }
    return 0;
}
