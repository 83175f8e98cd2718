// expect: survives
// secure: wrong size: PTR, a block of 40 bytes, freed as 64, in thread .*
// sampled: survives
// sizes: wrong size: PTR, a block of 40 bytes, freed as 64, in thread .*
// unmatched: survives
// operator delete that says another size than operator new was told.
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));
void _ZdlPvm(void *p, size_t n) __attribute__((weak));

int main(void) {
    if (_Znwm == NULL || _ZdlPvm == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvm(announce(_Znwm(40)), 64);
}
