// expect: survives
// secure: overflow: PTR, a block of 64 bytes, at byte 64, in thread [0-9]+, size class 80
// sampled: caught (overflow|out of bounds): PTR, .*
// A byte behind a small block that nobody frees: found when the process ends.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(64));
    *(char *)at_offset(p, 64) ^= 1;
}
