// expect: free\(\): invalid pointer
// secure: free\(\): invalid pointer
// sampled: free\(\): invalid pointer
// An address on the stack.
#include "corrupt.h"

int main(void) {
    char block[64];
    free(announce(at_offset(block, 16)));
}
