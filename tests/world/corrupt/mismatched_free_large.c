// expect: survives
// secure: mismatched free: PTR, a block of 200000 bytes, from new, freed as malloc's, in thread .*
// sampled: survives
// A large block of operator new is taken back by free.
#include "corrupt.h"

void *_Znwm(size_t n) __attribute__((weak));

int main(void) {
    if (_Znwm == NULL)
        return announce(malloc(1)) == NULL;
    free(announce(_Znwm(200000)));
}
