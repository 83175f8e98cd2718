// expect: survives
// secure: overflow: 0x[0-9a-f]+, a block of 40 bytes, at byte 4[0-9], .*
// sampled: survives
// Eight bytes before a small block, in the tail of the one that lies there: found when that one is freed.
#include "corrupt.h"

int main(void) {
    make_spares(40);
    *(uint64_t *)at_offset(announce(behind(40)), (size_t)-8) = 0x7878787878787878;
    free_spares(0, PROMISED_FREES);
}
