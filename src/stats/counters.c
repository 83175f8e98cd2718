#include "stats/counters.h"

_Atomic uint64_t hk_counters[HK_COUNT_COUNT];

void hk_counters_forked(void) {
    for (unsigned i = 0; i < HK_COUNT_COUNT; i++)
        hk_store_relaxed(&hk_counters[i], (uint64_t)0);
}
