// expect: survives
// secure: (write after free|overflow): 0x[0-9a-f]+, .*
// sampled: survives
// Before the start of a small block, where none has been freed since: found when the process ends.
#include "corrupt.h"

int main(void) {
    make_spares(40);
    char *p = announce(spares[1000]);
    *(char *)at_offset(p, (size_t)-3) ^= 1;
    free(p);
}
