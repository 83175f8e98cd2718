// expect: survives
// secure: write after free: 0x[0-9a-f]+, a block of [0-9]+ bytes, at byte [0-9]+, .*
// sampled: survives
// Writing to a block that was freed with all others of its slab: found when its memory serves blocks of another size.
#include "corrupt.h"

#include <unistd.h>

int main(void) {
    char *p = announce(at_offset(freed_with_its_slab(100), 0));
    *p = 'x';
    for (int i = 0; i < 9000; i++)
        at_offset(malloc(300), 0);
    _exit(0);
}
