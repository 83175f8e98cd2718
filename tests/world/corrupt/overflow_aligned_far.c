// expect: survives
// secure: overflow: PTR, a block of 100 bytes, at byte 300, .*
// sampled: survives
// A write behind a small block of large alignment, in what the block is larger than asked for: found when it is freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(aligned_alloc(32768, 100));
    *(char *)at_offset(p, 300) = 1;
    free(p);
}
