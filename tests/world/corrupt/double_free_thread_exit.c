// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 1000 bytes, .*
// A thread frees the same block twice and ends: its cache is given back then.
#include "corrupt.h"

static void *misuse(void *p) {
    free(p);
    free(at_offset(p, 0));
    return NULL;
}

int main(void) { in_thread(misuse, announce(malloc(1000))); }
