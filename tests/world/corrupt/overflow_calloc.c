// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A byte behind a block of calloc.
#include "corrupt.h"

int main(void) {
    char *p = announce(calloc(3, 8));
    *(char *)at_offset(p, 24) = 'x';
    free(p);
}
