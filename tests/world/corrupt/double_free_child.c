// expect: survives
// secure: double free: PTR, .*
// sampled: double free: PTR, a block of 24 bytes, .*
// A fork's child frees what its parent has freed before.
#include "child.h"

int main(void) {
    char *p = announce(malloc(24));
    free(p);
    end_as_child(free, p);
}
