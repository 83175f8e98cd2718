// expect: survives
// secure: overflow: PTR, a block of 24 bytes, at byte 24, .*
// sampled: caught (overflow|out of bounds): PTR, .*
// A fork's child finds what its parent did before.
#include "child.h"

int main(void) {
    char *p = announce(malloc(24));
    *(char *)at_offset(p, 24) = 'x';
    end_as_child(free, p);
}
