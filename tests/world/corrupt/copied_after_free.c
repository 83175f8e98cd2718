// expect: survives
// secure: write after free: PTR, .*
// checked: use after free: PTR, .*
// sampled: SIGSEGV use after free: PTR, a block of 100 bytes, at byte 4, .*
// Copying into a block that was freed.
#include "corrupt.h"

#include <string.h>

int main(void) {
    volatile size_t n = 20;
    char *p = announce(malloc(100));
    free(p);
    memset(at_offset(p, 4), 'x', n);
    for (int i = 0; i < 10 * PROMISED_FREES; i++)
        free(at_offset(malloc(100), 0));
}
