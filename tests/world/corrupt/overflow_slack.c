// expect: survives
// secure: overflow: PTR, a block of 400 bytes, at byte 440, .*
// setting: HAKMEM_LEARN_SIZES=0
// sampled: caught (overflow|out of bounds): PTR, .*
// Behind a block's tail, in what the block is larger than asked for: the first one of its class to be freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(400));
    *(char *)at_offset(p, 440) = 'x';
    free(p);
}
