// expect: survives
// secure: SIGSEGV out of bounds: PTR, .*
// sampled: survives
// unfenced: survives
// Behind a large block, on the fence: the write itself fails.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(100000));
    *(char *)at_offset(p, 100000) = 'x';
    free(p);
}
