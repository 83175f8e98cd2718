// calloc and reallocarray refuse a product that overflows with ENOMEM; the old block stays.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    volatile size_t half = SIZE_MAX / 2, root = (size_t)1 << 32, third = SIZE_MAX / 3;
    const size_t products[][2] = {{half + 1, 2},  {root, root},  {root + 1, root},
                                  {third + 1, 3}, {2, half + 1}, {SIZE_MAX, SIZE_MAX},
                                  {SIZE_MAX, 2}};
    void *block = malloc(1000);
    fill(block, 1000, 5);
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        size_t count = products[i][0], n = products[i][1];
        errno = 0;
        PROMISE(calloc(count, n) == NULL, "calloc(%zu, %zu) gave a block", count, n);
        PROMISE(errno == ENOMEM, "calloc(%zu, %zu): errno %d", count, n, errno);
        errno = 0;
        PROMISE(reallocarray(block, count, n) == NULL, "reallocarray(%zu, %zu) gave a block", count,
                n);
        PROMISE(errno == ENOMEM, "reallocarray(%zu, %zu): errno %d", count, n, errno);
        PROMISE(intact(block, 1000, 5), "a refused reallocarray changed the block");
    }
    free(block);
    return 0;
}
