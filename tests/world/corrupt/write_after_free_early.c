// expect: survives
// secure: write after free: PTR, a block of 80 bytes, at byte 8, .*
// sampled: SIGSEGV use after free: PTR, a block of 72 bytes, at byte 8, .*
// A write to a block that has left the quarantine: found when the process ends.
#include "corrupt.h"

int main(void) {
    make_spares(72);
    free(spares[0]);
    free_spares(1, 200);
    *(char *)at_offset(announce(spares[0]), 8) = 1;
}
