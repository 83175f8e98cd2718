// expect: survives
// secure: overflow: PTR, a block of 33000 bytes, at byte 33100, .*
// sampled: survives
// A write well behind a large block that was asked for on a page, short of the fence: found when it is freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(aligned_alloc(4096, 33000));
    *(char *)at_offset(p, 33100) = 1;
    free(p);
}
