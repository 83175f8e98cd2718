// expect: survives
// secure: wrong size: PTR, a block of 40 bytes, freed as 64, in thread .*
// sampled: survives
// operator delete[] that says another size than operator new[] was told.
#include "corrupt.h"

void *_Znam(size_t n) __attribute__((weak));
void _ZdaPvm(void *p, size_t n) __attribute__((weak));

int main(void) {
    if (_Znam == NULL || _ZdaPvm == NULL)
        return announce(malloc(1)) == NULL;
    _ZdaPvm(announce(_Znam(40)), 64);
}
