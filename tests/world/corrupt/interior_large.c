// expect: hakmem: fatal: invalid free: PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An address inside a live large block.
#include "corrupt.h"

int main(void) {
    void *p = malloc(200000);
    free(announce(at_offset(p, 4096)));
    free(p);
}
