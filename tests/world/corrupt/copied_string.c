// expect: survives
// secure: overflow: PTR, a block of 16 bytes, at byte 16, .*
// checked: overflow: PTR, a block of 16 bytes, at byte 20, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A string longer than its block, by strcpy.
#include "corrupt.h"

#include <string.h>

int main(void) {
    const char *volatile source = "twenty characters or";
    char *p = announce(malloc(16));
    strcpy(p, source);
    free(p);
}
