// expect: survives
// secure: mismatched free: PTR, freed as aligned to [0-9]+, in thread .*
// sampled: survives
// free_aligned_sized that says an alignment that the block has not.
#include "corrupt.h"

void free_aligned_sized(void *p, size_t align, size_t n) __attribute__((weak));

int main(void) {
    if (free_aligned_sized == NULL)
        return announce(malloc(1)) == NULL;
    char *p = announce(aligned_alloc(64, 128));
    free_aligned_sized(p, (size_t)p * 2 & -((size_t)p * 2), 128);
}
