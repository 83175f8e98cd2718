// expect: survives
// sampled: SIGSEGV use after free: PTR, a block of 100 bytes, at byte 5, .*
// secure: survives
// Reading a freed block that was sampled: the read itself fails, and says where it was freed.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(100));
    free(p);
    return *(volatile char *)at_offset(p, 5) == 'x';
}
