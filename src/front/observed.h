/* The observed front: what the boundary does for a thread that goes by its trap, so that each of
 * its operations comes there. It asks the layers of the thread's plan in their order, the magazines
 * among them; what none can serve goes to the heap.
 *
 *   malloc(n) ── hk_observed_malloc ── ask each layer ── all empty: refill the home layer, take
 *   free(p) ──── hk_observed_free ──── offer to each ─── all full: flush half of the home layer
 *
 * The home layer is the one that is filled from the heap: C7_HOT in its band if it is bound to a
 * slab; else the first of magazines, lists and unified cache; else none, and each operation goes to
 * the heap by itself. */
#pragma once

#include "front/magazine.h"
#include "observe/layers.h"
#include "observe/metrics.h"

/* What a thread that is or was observed has; lives as long as its record. */
struct hk_observed {
    hk_metrics_t metrics; /* owner writes, any reads */
    hk_layers_t layers;   /* owner */
};

/* The commonest plans, for which there is an early exit. */
#define HK_MAGAZINES_OBSERVED (HK_LAYER_BIT(HK_LAYER_HEAPV2) | HK_PLAN_OBSERVED)
#define HK_MAGAZINES_COUNTED (HK_MAGAZINES_OBSERVED | HK_PLAN_METRICS)
#define HK_MAGAZINES_WATCHED (HK_MAGAZINES_OBSERVED | HK_PLAN_WATCHED)

/* Where the thread counts by that plan; NULL: it does not. */
HK_INLINE hk_observed_t *hk_counts_at(const hk_thread_t *thread, unsigned plan) {
    return (plan & HK_PLAN_METRICS) != 0 ? hk_load_relaxed(&thread->observed) : NULL;
}

/* The thread's plan; 0: it is not observed, and has settled since it was. Always 0 in a FAST build,
 * where the boundary's code for plans is left out. */
HK_INLINE unsigned hk_observed(const hk_thread_t *thread) {
    return HK_FAST ? 0 : hk_load_relaxed(&thread->plan);
}

/* The whole operation of an observed thread. */
void *hk_observed_malloc(hk_thread_t *thread, size_t n);
void hk_observed_free(hk_thread_t *thread, void *p);

/* The same once the thread is entered and the class known. NULL: out of memory. */
void *hk_observed_take(hk_thread_t *thread, unsigned cls);
void hk_observed_give(hk_thread_t *thread, unsigned cls, void *p);

/* A hit for the plan HK_MAGAZINES_COUNTED, counted at `o`, or not where that is NULL: as short as
 * can be and, like the hit path, not entered. NULL or false: anything else, and nothing has
 * changed. */
HK_INLINE void *hk_observed_pop(hk_thread_t *thread, hk_observed_t *o, size_t n) {
    if (HK_UNLIKELY(n > HK_MID_MAX))
        return NULL;
    /* 0, where sizes are hidden, has no blocks */
    const size_t cls = hk_load_relaxed(&hk_class_of_size[(n + 7) >> 3]);
    void *p = hk_hit_pop_class(&thread->cache, cls);
    if (HK_LIKELY(p != NULL) && o != NULL)
        hk_metrics_add(&o->metrics, HK_LAYER_HEAPV2, cls, HK_MALLOC_HIT, 1);
    return p;
}

HK_INLINE bool hk_observed_push(hk_thread_t *thread, hk_observed_t *o, void *p) {
    size_t kind = hk_hit_kind(&thread->cache, p);
    if (HK_UNLIKELY(!hk_hit_push_kind(&thread->cache, kind, p)))
        return false;
    if (o != NULL)
        hk_metrics_add(&o->metrics, HK_LAYER_HEAPV2, kind, HK_FREE_HIT, 1);
    return true;
}

/* The short way (front/alone.h) by that cache, if operations are only counted. NULL or false:
 * nothing has changed. */
HK_INLINE void *hk_counted_pop(hk_tcache_t *tc, size_t n) {
    hk_observed_t *o = hk_load_relaxed(&tc->counted);
    return o != NULL ? hk_observed_pop(tc->thread, o, n) : NULL;
}

HK_INLINE bool hk_counted_push(hk_tcache_t *tc, void *p) {
    hk_observed_t *o = hk_load_relaxed(&tc->counted);
    return o != NULL && hk_observed_push(tc->thread, o, p);
}

/* Gives the blocks of the thread's research layers to the heap. The thread is entered. */
void hk_observed_flush(hk_thread_t *thread);

/* In a fork's child: sets the counters to 0. */
void hk_observed_forget(hk_thread_t *thread);

/* The blocks of class cls in the thread's research layers. Any thread. */
unsigned hk_observed_count(hk_thread_t *thread, unsigned cls);

/* Adds up the counters of all threads, those that have ended included. False: as
 * hk_threads_visit(). */
bool hk_front_metrics(hk_metrics_sum_t *sum);
