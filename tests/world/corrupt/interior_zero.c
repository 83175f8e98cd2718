// expect: double free: 0x[0-9a-f]+
// secure: invalid free: 0x[0-9a-f]+, a block of 0 bytes, .*
// sampled: double free: 0x[0-9a-f]+
// Inside what a block of no bytes has for its own.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(0));
    free(at_offset(p, 8));
}
