// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from new, freed as new\[]'s, in thread .*
// sampled: survives
// What operator new gave out is taken back by operator delete[].
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));
void _ZdaPv(void *p) __attribute__((weak));

int main(void) {
    if (_Znwm == NULL || _ZdaPv == NULL)
        return announce(malloc(1)) == NULL;
    _ZdaPv(announce(_Znwm(40)));
}
