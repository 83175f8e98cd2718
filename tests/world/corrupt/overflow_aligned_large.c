// expect: survives
// secure: SIGSEGV out of bounds: PTR, a block of 262144 bytes, at byte 262144, .*
// sampled: survives
// A byte behind a large block that was asked for aligned to more than a page, on the fence.
#include "corrupt.h"

int main(void) {
    char *p = announce(aligned_alloc(1 << 20, 1 << 18));
    *(char *)at_offset(p, 1 << 18) = 'x';
    free(p);
}
