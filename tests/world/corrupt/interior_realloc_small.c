// expect: invalid free: PTR
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR, .*
// realloc of an address inside a small block.
#include "corrupt.h"

int main(void) {
    void *p = malloc(64);
    p = realloc(announce(at_offset(p, 16)), 100);
    free(p);
}
