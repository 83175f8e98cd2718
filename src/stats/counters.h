/* The process's counters. The list is counters.def. */
#pragma once

#include "base/base.h"

typedef enum {
#define HK_COUNTER(name, unit, doc) HK_COUNT_##name,
#include "stats/counters.def"
    HK_COUNT_COUNT
} hk_counter_t;

/* Those that each heap keeps for itself (backend/heap.h). */
typedef enum {
#define HK_HEAP_COUNTER(name, unit, doc) HK_HEAP_COUNT_##name,
#include "stats/counters.def"
    HK_HEAP_COUNT_COUNT
} hk_heap_counter_t;

extern _Atomic uint64_t hk_counters[HK_COUNT_COUNT]; /* atomic: any thread */

/* Adds n to a counter: hk_count(madvise, 1). Any thread. */
#define hk_count(name, n) ((void)hk_add_relaxed(&hk_counters[HK_COUNT_##name], (uint64_t)(n)))
#define hk_counted(name) hk_load_relaxed(&hk_counters[HK_COUNT_##name])

/* In a fork's child, which counts from its own start. */
void hk_counters_forked(void);
