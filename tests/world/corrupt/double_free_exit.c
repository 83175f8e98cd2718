// expect: double free: PTR
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 64 bytes, .*
// The same small block twice in a row, and no more: found when the process ends.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(64));
    free(p);
    free(at_offset(p, 0));
}
