// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// untailed: survives
// A byte behind a small block: found when it is freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(24));
    *(char *)at_offset(p, 24) = 'x';
    free(p);
}
