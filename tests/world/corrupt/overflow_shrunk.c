// expect: survives
// secure: overflow: PTR, a block of 90 bytes, at byte 90, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A byte behind a block that realloc has made smaller where it was.
#include "corrupt.h"

int main(void) {
    char *p = announce(realloc(malloc(100), 90));
    *(char *)at_offset(p, 90) = 'x';
    free(p);
}
