#include "base/calls.h"

void hk_futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *most) {
    HK_KEEP_ERRNO(HK_CALL(futex, syscall(SYS_futex, word, what, value, most, NULL, 0ul)));
}
