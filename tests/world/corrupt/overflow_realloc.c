// expect: survives
// secure: overflow: PTR, a block of 100 bytes, at byte 100, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A byte behind a block that realloc moves: found by realloc.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(100));
    *(char *)at_offset(p, 100) = 'x';
    p = realloc(p, 5000);
    free(p);
}
