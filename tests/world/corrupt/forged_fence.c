// expect: caught invalid free: PTR.*
// secure: invalid free: PTR, .*
// sampled: caught invalid free: PTR.*
// A large block of large alignment holds what describes a block that lies inside it, which is freed.
#include <string.h>

#include "corrupt.h"

int main(void) {
    size_t *p = aligned_alloc(65536, 131072);
    char *inside = announce((char *)p + 4096);
    const size_t forged[] = {
        (size_t)inside, 40960, (size_t)inside, 65536, (size_t)inside, 40960, 1, 0, 0, 1};
    memcpy(p, forged, sizeof forged);
    free(inside);
}
