// expect: survives
// secure: overflow: PTR, a block of 105 bytes, at byte 105, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A byte behind a block that realloc has made larger where it was.
#include "corrupt.h"

int main(void) {
    char *p = announce(realloc(malloc(100), 105));
    *(char *)at_offset(p, 105) = 'x';
    free(p);
}
