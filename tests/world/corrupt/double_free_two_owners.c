// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR
// A block freed twice is handed out twice, unseen (not_caught.c); found when both of its owners
// have freed it and the thread cache gives it back.
#include "corrupt.h"

int main(void) {
    make_spares(64);
    void *p = announce(malloc(64));
    free(p);
    free(at_offset(p, 0));
    void *one = malloc(64), *other = malloc(64);
    free(one);
    free(at_offset(other, 0));
    free_spares(0, PROMISED_FREES);
}
