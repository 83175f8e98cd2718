// expect: survives
// secure: overflow: PTR, a block of 18000 bytes, at byte 18000, .*
// sampled: survives
// A byte behind a block that realloc has made smaller by more than the guard could note of it where it was.
#include "corrupt.h"

int main(void) {
    char *p = announce(realloc(malloc(32000), 18000));
    *(char *)at_offset(p, 18000) = 'x';
    free(p);
}
