#include "base/calls.h"

#include <string.h>

_Atomic uint64_t hk_calls[HK_CALL_KINDS];

uint64_t hk_calls_read(uint64_t counts[HK_CALL_KINDS]) {
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < HK_CALL_KINDS; kind++)
        sum += counts[kind] = hk_load_relaxed(&hk_calls[kind]);
    return sum;
}

void hk_calls_forked(void) { memset((void *)hk_calls, 0, sizeof hk_calls); }

void hk_futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *most) {
    HK_KEEP_ERRNO(HK_CALL(futex, syscall(SYS_futex, word, what, value, most, NULL, 0ul)));
}
