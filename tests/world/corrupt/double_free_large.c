// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, a block of 200000 bytes, .*
// sampled: double free: PTR
// trap: SIGILL double free: PTR
// A block of a run of its own, freed twice in a row: found at once.
#include "corrupt.h"

int main(void) {
    void *keep = malloc(200000);
    void *p = announce(malloc(200000));
    free(p);
    free(at_offset(p, 0));
    free(keep);
}
