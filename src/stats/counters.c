#include "stats/counters.h"

_Atomic uint64_t hk_counters[HK_COUNT_COUNT];
