// expect: survives
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 64 bytes, .*
// A second free after somebody else has asked for a block of the size.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(64));
    free(p);
    void *volatile q = malloc(64);
    free(at_offset(p, 0));
    (void)q;
}
