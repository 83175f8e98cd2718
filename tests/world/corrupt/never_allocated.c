// expect: hakmem: fatal: (double free|invalid pointer): PTR
// secure: double free: PTR, .*
// sampled: invalid free: PTR, .*
// The last 64 KiB of a superslab (2 MiB or more) that has just been begun: nobody got a block
// there.
#include "corrupt.h"

int main(void) {
    void *p = malloc(64);
    uintptr_t end = ((uintptr_t)p | (((uintptr_t)2 << 20) - 1)) - 4095;
    free(announce(at_offset(p, end - (uintptr_t)p)));
}
