// expect: survives
// secure: write after free: 0x[0-9a-f]+, a block of 1024 bytes, at byte 1016, .*
// setting: HAKMEM_LEARN_SIZES=0
// sampled: survives
// Eight bytes before a block, behind the tail of the one that lies there: found when that one is given out again.
#include "corrupt.h"

int main(void) {
    make_spares(900);
    *(uint64_t *)at_offset(announce(behind(900)), (size_t)-8) = 0x7878787878787878;
    for (int i = 0; i < 10 * PROMISED_FREES; i++) {
        free(spares[i % PROMISED_FREES]);
        spares[i % PROMISED_FREES] = malloc(900);
    }
}
