// expect: survives
// secure: SIGSEGV out of bounds: PTR, .*
// sampled: survives
// A page before the start of a large block, on the fence.
#include "corrupt.h"

int main(void) {
    void *volatile before = malloc(65536 + 100000);
    char *p = announce(malloc(65536 + 100000));
    *(char *)at_offset(p, (size_t)-4096) = 'x';
    free(p);
    free(before);
}
