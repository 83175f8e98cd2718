// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from malloc, freed as new\[]'s, in thread .*
// sampled: survives
// What malloc gave out is taken back by operator delete[].
#include "corrupt.h"

void _ZdaPv(void *p) __attribute__((weak));

int main(void) {
    if (_ZdaPv == NULL)
        return announce(malloc(1)) == NULL;
    _ZdaPv(announce(malloc(40)));
}
