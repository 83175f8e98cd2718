// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR
// The second free comes when the first has long left the thread cache.
#include "corrupt.h"

int main(void) {
    make_spares(200);
    void *p = announce(malloc(200));
    free(p);
    free_spares(0, PROMISED_FREES / 2);
    free(at_offset(p, 0));
    free_spares(PROMISED_FREES / 2, PROMISED_FREES);
}
