// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from new, freed as malloc's, in thread .*
// sampled: survives
// sizes: survives
// What operator new gave out is taken back by free.
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));

int main(void) {
    if (_Znwm == NULL)
        return announce(malloc(1)) == NULL;
    free(announce(_Znwm(40)));
}
