// expect: survives
// secure: write after free: PTR, a block of 5120 bytes, at byte 4095, .*
// setting: HAKMEM_LEARN_SIZES=0
// sampled: SIGSEGV use after free: PTR, a block of 4096 bytes, at byte 4095, .*
// partly: survives
// Writing to the end of a freed block of a page: found when it is given out again.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(4096));
    free(p);
    *(char *)at_offset(p, 4095) = 'x';
    for (int i = 0; i < 10 * PROMISED_FREES; i++)
        free(at_offset(malloc(4096), 0));
}
