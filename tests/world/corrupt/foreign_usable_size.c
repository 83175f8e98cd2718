// expect: survives
// secure: invalid pointer: PTR, in thread [0-9]+
// sampled: survives
// The size of what is no block, on the stack: the C library reads it from the bytes before.
#include "corrupt.h"

#include <malloc.h>

int main(void) {
    _Alignas(64) char block[128] = {0};
    volatile size_t n = malloc_usable_size(announce(at_offset(block, 64)));
    (void)n;
}
