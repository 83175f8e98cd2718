// expect: SIGSEGV
// secure: SIGSEGV use after free: PTR, a block of 104857600 bytes, at byte 1048576, in thread [0-9]+
// sampled: survives
// A block of more than most are, and another one as large that is asked for at once.
#include "corrupt.h"

int main(void) {
    enum { BYTES = 100 << 20, AT = 1 << 20 };
    char *p = announce(malloc(BYTES));
    free(p);
    char *q = malloc(BYTES);
    *(char *)at_offset(p, AT) = 1;
    return q == NULL;
}
