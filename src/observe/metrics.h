/* Front metrics: what happened at each layer, per band, and the CSV that shows it
 * (docs/front-metrics.md). */
#pragma once

#include "backend/sizeclass.h"
#include "observe/plan.h"

/* C0 ... C7, and the classes above 1 KiB. */
enum { HK_BAND_COUNT = 9 };

typedef enum {
    HK_MALLOC_HIT,  /* the layer had a block */
    HK_MALLOC_MISS, /* it had none */
    HK_FREE_HIT,    /* it kept the block */
    HK_FREE_MISS,   /* it was full */
    HK_REFILL,      /* it was filled from the heap */
    HK_FLUSH,       /* it gave blocks to the heap to make room */
    HK_MOVED,       /* blocks that refills and flushes moved */
    HK_EVENT_COUNT,
    HK_EVENT_ROOM = 8, /* a cache line for each class and layer */
} hk_event_t;

/* One thread's counters, per class because that is what an operation knows. Only the owner writes,
 * so counting is an addition and no more. */
typedef struct {
    _Alignas(HK_CACHE_LINE) _Atomic uint64_t n[HK_LAYER_COUNT][HK_CLASS_COUNT][HK_EVENT_ROOM];
} hk_metrics_t;

/* On x86-64 in one instruction, which the compiler does not make of an atomic load and store. */
HK_INLINE void hk_metrics_add(hk_metrics_t *metrics, unsigned layer, size_t cls, hk_event_t event,
                              uint64_t n) {
    _Atomic uint64_t *counter = &metrics->n[layer][cls][event];
#if defined(__x86_64__)
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
#else
    hk_store_relaxed(counter, hk_load_relaxed(counter) + n);
#endif
}

typedef struct {
    uint64_t n[HK_LAYER_COUNT][HK_BAND_COUNT][HK_EVENT_COUNT];
} hk_metrics_sum_t;

/* Adds one thread's counters, classes gathered in bands. Any thread. */
void hk_metrics_sum(hk_metrics_sum_t *sum, hk_metrics_t *metrics);

/* Writes the CSV: a line of names, then one line for each band and layer that was asked anything.
 * Each line is one write. 0, or what is wrong, as errno says it. */
int hk_metrics_write(const hk_metrics_sum_t *sum, int fd);
