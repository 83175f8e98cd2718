// expect: hakmem: fatal: invalid free: PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An address inside a live directly mapped block.
#include "corrupt.h"

int main(void) {
    void *p = malloc((size_t)20 << 20);
    free(announce(at_offset(p, (size_t)1 << 20)));
    free(p);
}
