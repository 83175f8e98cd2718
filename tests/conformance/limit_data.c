// Below a limit of its data, a process can use 90 % of what it can on the C library.
#include "limits.h"

int main(int argc, char **argv) {
    const char *kind = begin(argc, argv);
    if (kind != NULL)
        answer(usable_in(kind, SIZE_MAX));
    keeps_usable((again_t){.resource = RLIMIT_DATA, .limit = 64 * MIB}, "ulimit -d 65536");
    if (!fast)
        keeps_usable((again_t){.resource = RLIMIT_DATA, .limit = 1024 * MIB}, "ulimit -d 1048576");
    return 0;
}
