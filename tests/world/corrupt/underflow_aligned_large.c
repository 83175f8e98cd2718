// expect: survives
// secure: SIGSEGV out of bounds: PTR, a block of 262144 bytes, at byte -1, .*
// sampled: survives
// The byte before a large block that was asked for aligned to more than a page, on the fence.
#include "corrupt.h"

int main(void) {
    void *volatile before = malloc(1 << 20);
    char *p = announce(aligned_alloc(1 << 16, 1 << 18));
    *(char *)at_offset(p, (size_t)-1) = 'x';
    free(p);
    free(before);
}
