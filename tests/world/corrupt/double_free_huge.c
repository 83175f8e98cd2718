// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, a block of 20971520 bytes, .*
// sampled: double free: PTR
// A directly mapped block, freed twice in a row: found at once.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc((size_t)20 << 20));
    free(p);
    free(at_offset(p, 0));
}
