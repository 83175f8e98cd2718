// expect: survives
// secure: wrong size: PTR, a block of 40 bytes, freed as 48, in thread .*
// sampled: survives
// A free that says another size than malloc was told.
#include "corrupt.h"

void free_sized(void *p, size_t n) __attribute__((weak));

int main(void) {
    void *p = announce(malloc(40));
    if (free_sized == NULL)
        free(p);
    else
        free_sized(p, 48);
}
