// expect: survives
// secure: overflow: PTR, a block of 10 bytes, at byte 10, .*
// checked: overflow: PTR, a block of 10 bytes, at byte 10, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A text longer than its block, by snprintf with a bound that is not the block's.
#include "corrupt.h"

int main(void) {
    volatile size_t bound = 100;
    char *p = announce(malloc(10));
    snprintf(p, bound, "%s", "twelve chars");
    free(p);
}
