// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from aligned new, freed as new's, in thread .*
// sampled: survives
// What an aligned operator new gave out is taken back by one that knows of no alignment.
#include "corrupt.h"

void *_ZnwmSt11align_val_t(size_t n, size_t align) __attribute__((weak));
void _ZdlPv(void *p) __attribute__((weak));

int main(void) {
    if (_ZnwmSt11align_val_t == NULL || _ZdlPv == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPv(announce(_ZnwmSt11align_val_t(40, 64)));
}
