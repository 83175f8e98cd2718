// expect: survives
// secure: overflow: 0x[0-9a-f]+, a block of 4400 bytes, at byte 5096, .*
// setting: HAKMEM_LEARN_SIZES=0
// sampled: survives
// 24 bytes before a longer block, far behind the tail of the one that lies there: found when that one is freed.
#include "corrupt.h"

int main(void) {
    make_spares(4400);
    *(uint64_t *)at_offset(announce(behind(4400)), (size_t)-24) = 0x7878787878787878;
    for (int i = 0; i < 10 * PROMISED_FREES; i++) {
        free(spares[i % PROMISED_FREES]);
        spares[i % PROMISED_FREES] = malloc(4400);
    }
}
