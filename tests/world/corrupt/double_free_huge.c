// expect: hakmem: fatal: double free: PTR
// A directly mapped block, freed twice in a row: found at once.
#include "corrupt.h"

int main(void) {
    void *p = announce(malloc((size_t)20 << 20));
    free(p);
    free(at_offset(p, 0));
}
