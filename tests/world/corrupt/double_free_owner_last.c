// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR
// Another thread frees the block, then its owner does: found when the owner next takes in what
// others have freed, that is before it gets new blocks from any slab.
#include "corrupt.h"

static void *misuse(void *p) {
    free(p);
    return NULL;
}

int main(void) {
    make_spares(1000);
    void *p = announce(malloc(1000));
    in_thread(misuse, p);
    free(at_offset(p, 0));
    free_spares(0, PROMISED_FREES);
    make_spares(1000);
}
