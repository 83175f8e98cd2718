// malloc_trim gives back at least half of a peak that was freed, but for a block in a thousand.
#include "promise.h"

int main(int argc, char **argv) {
    begin(argc, argv);
    enum { BLOCKS = 200000 };
    static void *blocks[BLOCKS];
    size_t before = resident();
    for (size_t i = 0; i < BLOCKS; i++) // some 100 MB
        fill(blocks[i] = malloc(500 + i % 50), 500, i);
    for (size_t i = 0; i < BLOCKS; i++)
        memset(blocks[i], 1, 500);
    size_t peak = resident();
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 1000 != 0)
            free(blocks[i]);
    malloc_trim(0);
    size_t after = resident();
    PROMISE(after < before + (peak - before) / 2,
            "resident %zu KiB at the peak, %zu KiB after malloc_trim", peak / KIB, after / KIB);
    return 0;
}
