// expect: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 100 bytes, .*
// A second free after others of the size.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(100));
    make_spares(100);
    free(p);
    free_spares(0, 20);
    free(p);
    make_spares(100);
    free_spares(0, PROMISED_FREES);
}
