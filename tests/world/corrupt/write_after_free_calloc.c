// expect: survives
// secure: write after free: PTR, a block of 224 bytes, at byte 100, .*
// sampled: SIGSEGV use after free: PTR, a block of 200 bytes, at byte 100, .*
// Writing to a freed block: found by the calloc that gets it.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(200));
    free(p);
    *(char *)at_offset(p, 100) = 'x';
    for (int i = 0; i < 10 * PROMISED_FREES; i++)
        free(at_offset(calloc(1, 200), 0));
}
