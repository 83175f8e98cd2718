// expect: free\(\): invalid pointer
// secure: invalid free: 0x[0-9a-f]+, in thread [0-9]+
// sampled: free\(\): invalid pointer
// Not from any heap: handed to the C library, whose own check then speaks.
#include "corrupt.h"

static _Alignas(64) char memory[256];

int main(void) { free(at_offset(announce(memory), 64)); }
