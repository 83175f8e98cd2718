// expect: hakmem: fatal: (double free|invalid free|invalid pointer): PTR
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR
// realloc of a large block that was freed.
#include "corrupt.h"

int main(void) {
    void *keep = malloc(200000);
    void *p = announce(malloc(200000));
    free(p);
    free(realloc(at_offset(p, 0), 300000));
    free(keep);
}
