// expect: survives
// secure: overflow: PTR, a block of 100001 bytes, at byte 100001, .*
// sampled: survives
// A byte behind a large block, short of the fence: found when it is freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(100001));
    *(char *)at_offset(p, 100001) = 'x';
    free(p);
}
