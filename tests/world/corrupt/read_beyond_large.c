// expect: survives
// secure: SIGSEGV out of bounds: PTR, .*
// sampled: survives
// Reading on behind a large block: the read itself fails.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(100000));
    return *(char *)at_offset(p, 100000);
}
