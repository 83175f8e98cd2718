// expect: survives
// secure: overflow: PTR, a block of 64 bytes, at byte 64, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// The commonest overflow of all: the 0 that ends a string, one byte too far.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(64));
    *(char *)at_offset(p, 64) = '\0';
    free(p);
}
