// expect: survives
// secure: overflow: PTR, a block of 16384 bytes, at byte 16384, .*
// sampled: survives
// A byte behind a block that realloc has made half as large, where its new size is a class's own.
#include "corrupt.h"

int main(void) {
    char *p = announce(realloc(malloc(32000), 16384));
    *(char *)at_offset(p, 16384) ^= 1;
    free(p);
}
