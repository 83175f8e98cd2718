// expect: hakmem: fatal: invalid (free|pointer): PTR
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR
// realloc of an address inside a live large block.
#include "corrupt.h"

int main(void) {
    void *p = malloc(200000);
    void *moved = realloc(announce(at_offset(p, 64)), 300000);
    free(moved);
}
