// expect: hakmem: fatal: invalid free: PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An address inside a small block, well aligned.
#include "corrupt.h"

int main(void) {
    make_spares(64);
    void *p = malloc(64);
    free(announce(at_offset(p, 16)));
    free_spares(0, PROMISED_FREES);
}
