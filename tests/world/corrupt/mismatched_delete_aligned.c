// expect: survives
// secure: mismatched free: PTR, a block of 128 bytes, from malloc, freed as aligned new's, in thread .*
// sampled: survives
// What aligned_alloc gave out is taken back by an aligned operator delete.
#include "corrupt.h"

void _ZdlPvSt11align_val_t(void *p, size_t align) __attribute__((weak));

int main(void) {
    if (_ZdlPvSt11align_val_t == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvSt11align_val_t(announce(aligned_alloc(64, 128)), 64);
}
