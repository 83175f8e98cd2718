// expect: hakmem: fatal: invalid free: PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An address inside a live large block, in another slice than its start.
#include "corrupt.h"

int main(void) {
    void *p = malloc(500000);
    free(announce(at_offset(p, 131072)));
    free(p);
}
