// expect: survives
// secure: overflow: PTR, a block of 64 bytes, at byte 64, in thread [0-9]+, size class 80
// sampled: caught (overflow|out of bounds): PTR, .*
// Eight bytes behind a block whose size is a class's own: found when it is freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(64));
    *(uint64_t *)at_offset(p, 64) = 0;
    free(p);
}
