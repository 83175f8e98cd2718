// expect: survives
// secure: write after free: 0x[0-9a-f]+, a block of 1024 bytes, at byte 1016, .*
// setting: HAKMEM_LEARN_SIZES=0
// sampled: survives
// Eight bytes before a block, behind the tail of the one that lies there: found when that one is given out again.
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
    make_spares(900);
    *(uint64_t *)at_offset(announce(behind(900)), (size_t)-8) = 0x7878787878787878;
    for (int i = 0; i < 10 * PROMISED_FREES; i++) {
        free(spares[i % PROMISED_FREES]);
        spares[i % PROMISED_FREES] = malloc(900);
    }
}
