// expect: hakmem: fatal: (double free|invalid pointer): PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An address inside a large block that was freed.
#include "corrupt.h"

int main(void) {
    void *keep = malloc(500000);
    void *p = malloc(500000);
    free(p);
    free(announce(at_offset(p, 131072)));
    free(keep);
}
