// expect: survives
// secure: SIGSEGV use after free: PTR, .*
// sampled: survives
// Writing to a freed large block: the write itself fails.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(200000));
    free(p);
    *(char *)at_offset(p, 1000) = 'x';
}
