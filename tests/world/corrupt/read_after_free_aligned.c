// expect: survives
// secure: SIGSEGV use after free: PTR, a block of 262144 bytes, at byte 131072, .*
// sampled: survives
// A freed large block that was asked for aligned to more than a page.
#include "corrupt.h"

int main(void) {
    char *volatile p = announce(aligned_alloc(1 << 20, 1 << 18));
    p[1 << 17] = 'x';
    free(p);
    return *(volatile char *)at_offset(p, 1 << 17) == 'y';
}
