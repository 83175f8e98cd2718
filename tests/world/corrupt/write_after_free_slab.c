// expect: survives
// secure: write after free: 0x[0-9a-f]+, a block of [0-9]+ bytes, at byte [0-9]+, .*
// sampled: survives
// Writing to a block that was freed with all others of its slab: found when its memory serves blocks of another size.
#include "corrupt.h"

#include <unistd.h>

enum { BYTES = 100, BLOCKS = 9000 };
static char *blocks[BLOCKS];

static char *freed_with_all(void) {
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(BYTES);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return at_offset(blocks[BLOCKS / 2], 0);
}

int main(void) {
    char *p = announce(freed_with_all());
    *p = 'x';
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(3 * BYTES);
    _exit(0);
}
