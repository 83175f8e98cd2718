// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// checked: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// The length of a block in bytes, given to mbstowcs as its length in characters.
#include "corrupt.h"

int main(void) {
    const char *volatile source = "characters";
    void *p = announce(malloc(24));
    mbstowcs(p, source, 24);
    free(p);
}
