// expect: survives
// secure: write after free: PTR, a block of 50000 bytes, at byte 1000, .*
// sampled: survives
// Writing to a freed large block where these come and go all the time: found when its pages serve again.
#include "recycled.h"

int main(void) {
    *(char *)at_offset(recycled(), 1000) = 'x';
    for (int i = 0; i < 10 * PROMISED_FREES; i++)
        free(at_offset(malloc(RECYCLED), 0));
}
