/* The process's counters. The list is counters.def. */
#pragma once

#include "base/base.h"

typedef enum {
#define HK_COUNTER(name, unit, doc) HK_COUNT_##name,
#include "base/counters.def"
    HK_COUNT_COUNT
} hk_counter_t;

/* Those that each heap keeps for itself (backend/heap.h). */
typedef enum {
#define HK_HEAP_COUNTER(name, unit, doc) HK_HEAP_COUNT_##name,
#include "base/counters.def"
    HK_HEAP_COUNT_COUNT
} hk_heap_counter_t;

/* Of this process and those that it was forked from: what it has is partly theirs. */
extern _Atomic uint64_t hk_counters[HK_COUNT_COUNT]; /* atomic: any thread */
extern uint64_t hk_counters_of_parents
    [HK_COUNT_COUNT]; /* written in a forked child before it has other threads */

/* Adds n to a counter: hk_count(purge_runs, 1). Any thread, signal handlers too. */
#define hk_count(name, n) ((void)hk_add_relaxed(&hk_counters[HK_COUNT_##name], (uint64_t)(n)))
#define hk_counted_ever(name) hk_load_relaxed(&hk_counters[HK_COUNT_##name])
#define hk_counted(name) (hk_counted_ever(name) - hk_counters_of_parents[HK_COUNT_##name])

/* In a fork's child, whose figures begin anew: what it counts from now on is its own. */
void hk_counters_forked(void);
