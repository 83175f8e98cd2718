// expect: survives
// secure: overflow: PTR, a block of 40001 bytes, at byte 40001, .*
// sampled: survives
// A byte behind a large block that nobody frees, short of the fence: found when the process ends.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(40001));
    *(char *)at_offset(p, 40001) ^= 1;
}
