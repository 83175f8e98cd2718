// expect: realloc\(\): invalid pointer
// secure: invalid pointer: PTR, in thread [0-9]+
// sampled: realloc\(\): invalid pointer
// Resizing what is from no heap.
#include "corrupt.h"

static _Alignas(64) char memory[256];

int main(void) {
    void *volatile moved = realloc(announce(at_offset(memory, 64)), 512);
    (void)moved;
}
