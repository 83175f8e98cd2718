// realloc keeps the content in every direction, from any size up to 16 MiB to any other.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    uint64_t seed = 31;
    size_t n = 1;
    unsigned char *block = malloc(n);
    block[0] = 7;
    for (long i = 0; i < scaled(20000, 1500); i++) {
        size_t more = (16 * MIB) >> next(&seed) % 25;
        if (i % 4 == 0) // also near: the next size class, the next page
            more = n < 200 ? n + next(&seed) % 64 : n - n / 16 + next(&seed) % (n / 8);
        more = more == 0 ? 1 : more;
        size_t kept = n < more ? n : more;
        uint64_t key = next(&seed);
        memset(block, (int)(key & 255), n);
        unsigned char *moved = realloc(block, more);
        PROMISE(moved != NULL, "realloc from %zu to %zu: %s", n, more, strerror(errno));
        PROMISE(moved[0] == (key & 255) && memcmp(moved, moved + 1, kept - 1) == 0,
                "realloc from %zu to %zu lost content", n, more);
        memset(moved, 1, malloc_usable_size(moved));
        block = moved, n = more;
    }
    free(block);
    return 0;
}
