// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR
// The same small block twice in a row: found when the thread cache gives blocks back.
#include "corrupt.h"

int main(void) {
    make_spares(64);
    void *p = announce(malloc(64));
    free(p);
    free(at_offset(p, 0));
    free_spares(0, PROMISED_FREES);
}
