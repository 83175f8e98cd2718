// expect: survives
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 64 bytes, .*
// Two threads free the same block: the second one is told at once.
#include "corrupt.h"

static void *release(void *p) {
    free(p);
    return NULL;
}

int main(void) {
    void *p = announce(malloc(64));
    in_thread(release, p);
    release(at_offset(p, 0));
    _Exit(0);
}
