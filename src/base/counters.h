/* The process's counters. The list is counters.def. */
#pragma once

#include "base/base.h"

typedef enum {
#define HK_COUNTER(name, unit, doc) HK_COUNT_##name,
#include "base/counters.def"
    HK_COUNT_COUNT
} hk_counter_t;

/* The counters that each heap has (backend/heap.h). */
typedef enum {
#define HK_HEAP_COUNTER(name, unit, doc) HK_HEAP_COUNT_##name,
#include "base/counters.def"
    HK_HEAP_COUNT_COUNT
} hk_heap_counter_t;

/* Totals of this process and of those that it was forked from, because part of what it has is
 * theirs. */
extern _Atomic uint64_t hk_counters[HK_COUNT_COUNT]; /* atomic: any thread */
extern uint64_t hk_counters_of_parents
    [HK_COUNT_COUNT]; /* written in a forked child before it has other threads */

/* Adds n to a counter: hk_count(purge_runs, 1). Any thread, signal handlers too. */
#define hk_count(name, n) ((void)hk_add_relaxed(&hk_counters[HK_COUNT_##name], (uint64_t)(n)))
#define hk_counted_ever(name) hk_load_relaxed(&hk_counters[HK_COUNT_##name])
#define hk_counted(name) (hk_counted_ever(name) - hk_counters_of_parents[HK_COUNT_##name])

/* In a fork's child: its figures start at 0. */
void hk_counters_forked(void);
