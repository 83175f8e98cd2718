// expect: survives
// secure: overflow: PTR, a block of 1000 bytes, at byte 1008, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// Not the first byte behind the block, but one a little further on.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(1000));
    *(char *)at_offset(p, 1008) = 'x';
    free(p);
}
