// expect: survives
// secure: write after free: PTR, a block of 112 bytes, at byte 3, in thread [0-9]+, size class 112
// sampled: SIGSEGV use after free: PTR, .*
// Written to when it has left the quarantine, and nobody has been given it again: found when the process ends.
#include "corrupt.h"

int main(void) {
    enum { BLOCKS = 4000, KEPT = 50 }; // their slabs stay
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(100);
    for (int i = 0; i < BLOCKS; i++)
        if (i % KEPT != 0)
            free(blocks[i]);
    *(char *)at_offset(announce(blocks[1]), 3) ^= 1;
}
