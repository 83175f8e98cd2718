// expect: survives
// secure: mismatched free: PTR, a block of 40 bytes, from malloc, freed as new's, in thread .*
// sampled: survives
// What malloc gave out is taken back by operator delete.
#include "corrupt.h"

void _ZdlPv(void *p) __attribute__((weak));

int main(void) {
    void *p = announce(malloc(40));
    if (_ZdlPv == NULL)
        free(p);
    else
        _ZdlPv(p);
}
