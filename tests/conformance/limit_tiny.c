// With 4000 KiB of data a program still runs, gets NULL and ENOMEM, and can go on after it frees.
#include "promise.h"

int main(int argc, char **argv) {
    if (begin(argc, argv) == NULL) {
        again_t how = {.stage = "tiny", .resource = RLIMIT_DATA, .limit = 4000 * KIB};
        PROMISE(again(how) == 1, "the program does not run with 4000 KiB of data");
        return 0;
    }
    for (size_t n = 16; n <= 4 * MIB; n *= 4) {
        void *first = NULL;
        for (;;) {
            errno = 0;
            void **block = malloc(n);
            if (block == NULL)
                break;
            *block = first;
            first = block;
        }
        PROMISE(errno == ENOMEM, "NULL, but errno is %s", strerrorname_np(errno));
        PROMISE(n > 64 * KIB || first != NULL, "not one block of %zu bytes", n);
        while (first != NULL) {
            void *following = *(void **)first;
            free(first);
            first = following;
        }
    }
    answer(1);
}
