// expect: survives
// secure: overflow: PTR, a block of 16 bytes, at byte 16, .*
// checked: overflow: PTR, a block of 16 bytes, at byte 16, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A string longer than its block, by strcpy.
#include "corrupt.h"

#include <string.h>

int main(void) {
    /* the first one too far is even: no byte of a tail is, so that it always differs */
    const char *volatile source = "sixteen characters!?";
    char *p = announce(malloc(16));
    strcpy(p, source);
    free(p);
}
