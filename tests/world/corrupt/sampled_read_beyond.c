// expect: survives
// sampled: SIGSEGV out of bounds: PTR, a block of 96 bytes, at byte (96|4096), .*
// trap: SIGILL out of bounds: PTR, a block of 96 bytes, at byte (96|4096), .*
// secure: survives
// Reading on behind a sampled block: one of two lies at its page's end.
#include "corrupt.h"

int main(void) {
    char *p = malloc(96);
    if (((uintptr_t)p + 96) % 4096 != 0)
        p = malloc(96);
    return *(volatile char *)at_offset(announce(p), 96) == 'x';
}
