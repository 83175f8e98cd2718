// expect: survives
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR, .*
// malloc_usable_size of an address inside a block.
#include <malloc.h>

#include "corrupt.h"

int main(void) {
    void *p = malloc(40);
    printf("%zu\n", malloc_usable_size(announce(at_offset(p, 16))));
}
