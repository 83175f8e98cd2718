// expect: survives
// secure: wrong size: PTR, a block of 128 bytes, freed as 192, in thread .*
// sampled: survives
// free_aligned_sized that says another size than aligned_alloc was told.
#include "corrupt.h"

void free_aligned_sized(void *p, size_t align, size_t n) __attribute__((weak));

int main(void) {
    if (free_aligned_sized == NULL)
        return announce(malloc(1)) == NULL;
    free_aligned_sized(announce(aligned_alloc(64, 128)), 64, 192);
}
