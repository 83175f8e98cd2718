// expect: survives
// secure: write after free: PTR, a block of 1024 bytes, at byte 24, .*
// sampled: SIGSEGV use after free: PTR, a block of 1000 bytes, at byte 24, .*
// Writing to a freed block that nobody is given again: what comes next from a slab is when it is looked at.
#include "corrupt.h"

#include <unistd.h>

int main(void) {
    char *p = announce(malloc(1000));
    free(p);
    *(char *)at_offset(p, 24) = 'x';
    char *next = malloc(3000);
    _exit(next == NULL);
}
