// expect: survives
// secure: SIGSEGV out of bounds: PTR, a block of 160000 bytes, at byte 250000, .*
// sampled: survives
// Writing to what realloc has cut off a large block, which stays where it is: the write itself fails.
#include "corrupt.h"

int main(void) {
    char *p = announce(realloc(malloc(300000), 160000));
    *(char *)at_offset(p, 250000) = 1;
    free(p);
}
