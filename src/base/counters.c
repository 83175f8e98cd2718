#include "base/counters.h"

_Atomic uint64_t hk_counters[HK_COUNT_COUNT];
uint64_t hk_counters_of_parents[HK_COUNT_COUNT];

void hk_counters_forked(void) {
    memcpy(hk_counters_of_parents, (void *)hk_counters, sizeof hk_counters);
}
