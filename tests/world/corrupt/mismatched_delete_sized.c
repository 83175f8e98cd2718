// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from malloc, freed as new's, in thread .*
// sampled: survives
// What malloc gave out is taken back by operator delete, with its size.
#include "corrupt.h"

void _ZdlPvm(void *p, size_t n) __attribute__((weak));

int main(void) {
    if (_ZdlPvm == NULL)
        return announce(malloc(1)) == NULL;
    _ZdlPvm(announce(malloc(40)), 40);
}
