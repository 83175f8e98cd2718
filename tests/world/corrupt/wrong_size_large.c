// expect: survives
// secure: wrong size: PTR, a block of 100000 bytes, freed as 100001, in thread .*
// sampled: survives
// A free that says another size than malloc was told, of a large block.
#include "corrupt.h"

void free_sized(void *p, size_t n) __attribute__((weak));

int main(void) {
    void *p = announce(malloc(100000));
    if (free_sized == NULL)
        free(p);
    else
        free_sized(p, 100001);
}
