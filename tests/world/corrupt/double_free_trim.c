// expect: hakmem: fatal: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 64 bytes, .*
// The same small block twice in a row: found when malloc_trim empties the thread cache.
#include "corrupt.h"

#include <malloc.h>

int main(void) {
    void *p = announce(malloc(64));
    free(p);
    free(at_offset(p, 0));
    malloc_trim(0);
}
