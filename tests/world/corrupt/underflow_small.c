// expect: survives
// secure: overflow: 0x[0-9a-f]+, a block of 40 bytes, at byte 4[0-9], .*
// sampled: survives
// Eight bytes before a small block, in the tail of the one that lies there: found when that one is freed.
#include "corrupt.h"

// A block that lies just behind another one.
static char *behind(size_t n) {
    for (size_t i = 0; i < PROMISED_FREES; i++)
        for (size_t k = 0; k < PROMISED_FREES; k++)
            if ((uintptr_t)spares[i] - (uintptr_t)spares[k] - n < n / 2)
                return spares[i];
    return spares[0];
}

int main(void) {
    make_spares(40);
    *(uint64_t *)at_offset(announce(behind(40)), (size_t)-8) = 0x7878787878787878;
    free_spares(0, PROMISED_FREES);
}
