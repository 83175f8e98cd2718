// expect: survives
// secure: overflow: PTR, a block of 192 bytes, at byte 192, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A byte behind a block that was asked for aligned.
#include "corrupt.h"

int main(void) {
    char *p = announce(aligned_alloc(64, 192));
    *(char *)at_offset(p, 192) = 'x';
    free(p);
}
