// expect: invalid free: PTR
// secure: invalid free: PTR, in thread [0-9]+
// sampled: SIGSEGV
// A block's address with something in the bits that no address has.
#include "corrupt.h"

int main(void) {
    const uintptr_t tag = (uintptr_t)1 << 56;
    free(announce(at_offset(malloc(64), tag)));
}
