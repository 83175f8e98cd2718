#include "stats/counters.h"

#include <string.h>

_Atomic uint64_t hk_counters[HK_COUNT_COUNT];

void hk_counters_forked(void) { memset((void *)hk_counters, 0, sizeof hk_counters); }
