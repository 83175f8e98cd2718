// expect: double free: PTR
// secure: double free: PTR, a block of 8388608 bytes, .*
// sampled: double free: PTR
// A huge block, freed twice, another one of its size taken in between.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(8 << 20));
    free(p);
    void *q = malloc(8 << 20);
    free(p);
    free(q);
}
