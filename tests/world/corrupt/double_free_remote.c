// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 1000 bytes, .*
// Two threads that do not own the block free it, one after the other.
#include "corrupt.h"

static void *misuse(void *p) {
    free(p);
    return NULL;
}

int main(void) {
    void *p = announce(malloc(1000));
    in_thread(misuse, p);
    in_thread(misuse, at_offset(p, 0));
}
