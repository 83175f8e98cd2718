// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A thread writes a byte behind a block, and another one frees it.
#include "corrupt.h"

static void *overflow(void *p) {
    *(char *)at_offset(p, 24) = 'x';
    return NULL;
}

int main(void) {
    char *p = announce(malloc(24));
    in_thread(overflow, p);
    free(p);
}
