// expect: survives
// secure: overflow: PTR, a block of 8 bytes, at byte 8, .*
// checked: overflow: PTR, a block of 8 bytes, at byte 8, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A date longer than its block, by strftime with a bound that is not the block's.
#include "corrupt.h"

#include <time.h>

int main(void) {
    volatile size_t bound = 64;
    const struct tm when = {.tm_year = 126, .tm_mday = 1};
    char *p = announce(malloc(8));
    strftime(p, bound, "%Y-%m-%d", &when);
    free(p);
}
