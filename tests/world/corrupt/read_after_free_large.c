// expect: survives
// secure: SIGSEGV use after free: PTR, .*
// sampled: survives
// Reading a freed large block: the read itself fails.
#include "corrupt.h"

int main(void) {
    char *p = announce(malloc(200000));
    free(p);
    return *(volatile char *)at_offset(p, 1000);
}
