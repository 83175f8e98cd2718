// expect: invalid free: PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An odd address inside a large block.
#include "corrupt.h"

int main(void) {
    void *p = at_offset(malloc(200000), 1);
    free(announce(p));
}
