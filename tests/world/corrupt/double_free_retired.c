// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR
// All blocks of several slabs were freed, so the slabs themselves are gone: found at once.
#include "corrupt.h"

enum { BLOCKS = 20000 };

int main(void) {
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(500);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(at_offset(announce(blocks[BLOCKS / 2]), 0));
}
