// expect: survives
// secure: double free: PTR, a block of 0 bytes, .*
// sampled: survives
// Freeing a block of no bytes twice.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(0));
    free(p);
    free(at_offset(p, 0));
    _Exit(0);
}
