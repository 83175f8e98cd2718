// expect: survives
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR, a block of 40 bytes, .*
// malloc_usable_size of a small block that was freed.
#include <malloc.h>

#include "corrupt.h"

int main(void) {
    void *p = announce(malloc(40));
    free(p);
    printf("%zu\n", malloc_usable_size(p));
}
