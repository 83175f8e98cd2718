#include "stats/counters.h"

#include <string.h>

#include "base/report.h"

_Atomic uint64_t hk_counters[HK_COUNT_COUNT];
uint64_t hk_counters_of_parents[HK_COUNT_COUNT];

static unsigned faults_of_parents; /* written in a forked child before it has other threads */

unsigned hk_faults_counted(void) { return hk_load_relaxed(&hk_faults) - faults_of_parents; }

void hk_counters_forked(void) {
    const unsigned faults = hk_load_relaxed(&hk_faults);
    memcpy(hk_counters_of_parents, (void *)hk_counters, sizeof hk_counters);
    if (faults != faults_of_parents)
        faults_of_parents = faults;
}
