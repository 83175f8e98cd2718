// expect: free\(\): invalid pointer
// secure: invalid free: PTR, in thread [0-9]+
// sampled: free\(\): invalid pointer
// An address on the stack.
#include "corrupt.h"

int main(void) {
    char block[64];
    free(announce(at_offset(block, 16)));
}
