// expect: hakmem: fatal: double free: PTR
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR, a block of 64 bytes, .*
// realloc of a small block that was freed: its move frees the block once more.
#include "corrupt.h"

#include <malloc.h>

int main(void) {
    void *p = announce(malloc(64));
    free(p);
    free(realloc(at_offset(p, 0), 5000));
    malloc_trim(0);
}
