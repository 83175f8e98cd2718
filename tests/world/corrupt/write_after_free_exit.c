// expect: survives
// secure: write after free: PTR, a block of 1024 bytes, at byte 999, .*
// sampled: SIGSEGV use after free: PTR, a block of 1000 bytes, at byte 999, .*
// Writing to a freed block that nobody gets any more: found when the process ends.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(1000));
    free(p);
    *(char *)at_offset(p, 999) = 'x';
}
