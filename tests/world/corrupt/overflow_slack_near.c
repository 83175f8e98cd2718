// expect: survives
// secure: write after free: PTR, a block of 448 bytes, at byte 420, .*
// setting: HAKMEM_LEARN_SIZES=0
// sampled: caught (overflow|out of bounds): PTR, .*
// A few bytes behind a block's tail: still there when the block was freed, and found when it is given out again.
#include "corrupt.h"

int main(void) {
    free(malloc(401));
    char *p = announce(malloc(401));
    *(char *)at_offset(p, 420) = 'x';
    free(p);
}
