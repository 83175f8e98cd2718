// expect: survives
// secure: SIGSEGV out of bounds: PTR, a block of 0 bytes, .*
// sampled: survives
// Reading a block of no bytes: the read itself fails.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(0));
    return *(volatile char *)at_offset(p, 0) == 'x';
}
