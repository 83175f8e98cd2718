// calloc's memory is zero, also where it was used before.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    uint64_t seed = 99;
    for (long i = 0; i < scaled(20000, 1500); i++) {
        size_t n = (8 * MIB) >> next(&seed) % 24;
        n = n / 2 + next(&seed) % (n / 2 + 1);
        void *dirty = malloc(n);
        PROMISE(dirty != NULL, "malloc(%zu): %s", n, strerror(errno));
        memset(dirty, 0xFF, n);
        free(dirty);
        unsigned char *zero = calloc(n % 3 == 0 ? 3 : 1, n % 3 == 0 ? n / 3 : n);
        PROMISE(zero != NULL, "calloc of %zu bytes: %s", n, strerror(errno));
        PROMISE(n == 0 || (zero[0] == 0 && memcmp(zero, zero + 1, n - 1) == 0),
                "calloc of %zu bytes is not zero", n);
        memset(zero, 0xFF, malloc_usable_size(zero));
        free(zero);
    }
    return 0;
}
