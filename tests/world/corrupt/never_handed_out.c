// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: invalid free: PTR, .*
// A block of a slab in use that nobody got yet: it is free already.
#include "corrupt.h"

#include <malloc.h>

int main(void) {
    void *p = malloc(64); // the first of some thousand
    free(announce(at_offset(p, 64 * 900)));
    malloc_trim(0);
}
