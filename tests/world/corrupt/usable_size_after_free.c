// expect: hakmem: fatal: invalid pointer: PTR
// secure: invalid pointer: PTR, .*
// sampled: invalid pointer: PTR
// malloc_usable_size of a large block that was freed.
#include "corrupt.h"

#include <malloc.h>

int main(void) {
    void *keep = malloc(200000);
    void *p = announce(malloc(200000));
    free(p);
    size_t usable = malloc_usable_size(at_offset(p, 0));
    free(keep);
    return usable == 0;
}
