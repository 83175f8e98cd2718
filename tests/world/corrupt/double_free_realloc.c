// expect: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 100 bytes, .*
// A free of what realloc has moved.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(100));
    void *q = realloc(p, 5000);
    free(p);
    free(q);
    make_spares(100);
    free_spares(0, PROMISED_FREES);
}
