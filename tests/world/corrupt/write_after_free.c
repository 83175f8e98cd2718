// expect: survives
// secure: write after free: PTR, a block of 160 bytes, at byte 65, .*
// sampled: SIGSEGV use after free: PTR, a block of 128 bytes, at byte 65, .*
// uncleared: survives
// partly: write after free: PTR, a block of 160 bytes, at byte 65, .*
// Writing to a freed small block: found when it is given out again.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(128));
    free(p);
    *(char *)at_offset(p, 65) = 'x';
    for (int i = 0; i < 10 * PROMISED_FREES; i++)
        free(at_offset(malloc(128), 0));
}
