// expect: hakmem: fatal: invalid free: PTR
// secure: invalid free: PTR, .*
// sampled: invalid free: PTR
// An odd address inside a small block.
#include "corrupt.h"

int main(void) {
    make_spares(1024);
    void *p = malloc(1024);
    free(announce(at_offset(p, 1)));
    free_spares(0, PROMISED_FREES);
}
