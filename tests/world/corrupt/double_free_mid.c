// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR
// A block of 20 KiB, above the sizes of the first table.
#include "corrupt.h"

int main(void) {
    make_spares(20000);
    void *p = announce(malloc(20000));
    free(p);
    free(at_offset(p, 0));
    free_spares(0, PROMISED_FREES);
}
