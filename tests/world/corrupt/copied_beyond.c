// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// checked: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// Copying more into a block than it holds: checked copying finds it before anything is written.
#include "corrupt.h"

#include <string.h>

int main(void) {
    static char source[100];
    volatile size_t n = 25;
    char *p = announce(malloc(24));
    memset(source, 'x', sizeof source);
    memcpy(p, source, n);
    free(p);
}
