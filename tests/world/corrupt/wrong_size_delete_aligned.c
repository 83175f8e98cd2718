// expect: survives
// secure: wrong size: PTR, a block of 40 bytes, freed as 64, in thread .*
// sampled: survives
// An aligned operator delete that says another size than operator new was told.
#include "corrupt.h"

void *_ZnwmSt11align_val_t(size_t n, size_t align) __attribute__((weak));
void _ZdlPvmSt11align_val_t(void *p, size_t n, size_t align) __attribute__((weak));

int main(void) {
    if (_ZnwmSt11align_val_t == NULL || _ZdlPvmSt11align_val_t == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvmSt11align_val_t(announce(_ZnwmSt11align_val_t(40, 64)), 64, 64);
}
