// expect: survives
// secure: SIGSEGV out of bounds: PTR, a block of 0 bytes, .*
// sampled: survives
// Writing to a block of no bytes: the write itself fails.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(0));
    *(char *)at_offset(p, 0) = 'x';
    free(p);
}
