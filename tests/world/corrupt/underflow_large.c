// expect: survives
// secure: underflow: PTR, a block of 100000 bytes, at byte -8, .*
// sampled: survives
// Before the start of a large block: found when it is freed.
#include "corrupt.h"

int main(void) {
    void *volatile before = malloc(100000);
    char *p = announce(malloc(100000));
    *(char *)at_offset(p, (size_t)-8) = 'x';
    free(p);
    free(before);
}
