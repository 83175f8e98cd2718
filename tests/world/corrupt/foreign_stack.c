// expect: free\(\): invalid pointer
// secure: invalid free: PTR, in thread [0-9]+
// sampled: free\(\): invalid pointer
// An address on the stack. What lies before it decides what the C library says.
#include "corrupt.h"

int main(void) {
    volatile char block[64] = {0};
    free(announce(at_offset((void *)(uintptr_t)block, 16)));
}
