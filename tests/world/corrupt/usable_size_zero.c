// expect: survives
// secure: invalid pointer: PTR, a block of 0 bytes, .*
// sampled: survives
// malloc_usable_size of a block of no bytes that was freed.
#include <malloc.h>

#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(0));
    free(p);
    printf("%zu\n", malloc_usable_size(p));
}
