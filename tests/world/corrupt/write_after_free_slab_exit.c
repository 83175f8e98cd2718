// expect: survives
// secure: write after free: 0x[0-9a-f]+, in thread [0-9]+
// sampled: survives
// Writing to a block that was freed with all others of its slab: found when the process ends.
#include "corrupt.h"

int main(void) {
    char *p = announce(at_offset(freed_with_its_slab(100), 0));
    *p = 'x';
}
