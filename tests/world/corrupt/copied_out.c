// expect: survives
// secure: survives
// checked: overflow: PTR, a block of 100 bytes, at byte 100, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// Copying more out of a block than it holds, as to send it to somebody.
#include "corrupt.h"

#include <string.h>

int main(void) {
    static char target[200];
    volatile size_t n = 200;
    char *p = announce(malloc(100));
    memcpy(target, p, n);
    free(p);
}
