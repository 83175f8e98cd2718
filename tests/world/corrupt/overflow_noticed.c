// expect: survives
// secure: overflow: PTR, a block of 1000 bytes, at byte 1000, .*
// sampled: survives
// A byte behind a block that nobody frees: what comes next from a slab is when it is looked at again.
#include "corrupt.h"

#include <unistd.h>

int main(void) {
    char *p = announce(malloc(1000));
    *(char *)at_offset(p, 1000) = 'x';
    char *next = malloc(3000);
    _exit(next == NULL);
}
