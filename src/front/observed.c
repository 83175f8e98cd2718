#include "front/observed.h"

#include "backend/large.h"
#include "backend/meta.h"
#include "config/config.h"
#include "front/alone.h"
#include "front/boundary.h"
#include "front/guarded.h"
#include "front/sampled.h"
#include "front/watched.h"
#include "policy/purger.h"
#include "stats/sections.h"

/* ---- the route: what the plan means for a class ---- */

typedef struct {
    unsigned plan, layers, cls;
} route_t;

HK_INLINE route_t route_of(const hk_thread_t *thread, unsigned cls) {
    unsigned plan = hk_load_relaxed(&thread->plan);
    return (route_t){plan, plan & hk_layers_of(cls), cls};
}

static hk_layer_t home_of(route_t route) {
    const unsigned bound_c7 = HK_LAYER_BIT(HK_LAYER_C7_HOT);
    if ((route.layers & bound_c7) != 0 && (route.plan & HK_PLAN_C7_BOUND) != 0)
        return HK_LAYER_C7_HOT;
    for (hk_layer_t layer = HK_LAYER_HEAPV2; layer < HK_LAYER_HEAP; layer++)
        if ((route.layers & HK_LAYER_BIT(layer)) != 0)
            return layer;
    return HK_LAYER_HEAP;
}

HK_INLINE void count(hk_observed_t *o, route_t route, hk_layer_t layer, hk_event_t event,
                     unsigned n) {
    if ((route.plan & HK_PLAN_METRICS) != 0)
        hk_metrics_add(&o->metrics, layer, route.cls, event, n);
}

/* ---- the heap behind the layers ---- */

/* Fills a research layer and takes a block; *moved receives how many came from the heap. */
static void *refill_layer(hk_thread_t *thread, hk_observed_t *o, hk_layer_t home, unsigned cls,
                          unsigned *moved) {
    void *blocks[HK_LAYER_BATCH];
    unsigned got = hk_heap_take(&thread->heap, cls, blocks, hk_layer_batch(home, cls));
    *moved = got;
    if (got == 0)
        return NULL;
    unsigned kept = 0;
    while (kept < got - 1 && hk_layer_give(&o->layers, home, cls, blocks[kept]))
        kept++;
    if (kept < got - 1)
        hk_heap_give(&thread->heap, cls, blocks + kept, got - 1 - kept);
    return blocks[got - 1];
}

static HK_NOINLINE void *take_from_heap(hk_thread_t *thread, hk_observed_t *o, route_t route) {
    const unsigned cls = route.cls;
    hk_layer_t home = home_of(route);
    unsigned moved = 0;
    void *p = NULL;
    if (home == HK_LAYER_HEAP) {
        hk_heap_take(&thread->heap, cls, &p, 1);
    } else if (home == HK_LAYER_HEAPV2) {
        p = hk_magazine_take(thread, cls); /* not asked yet, if the plan has changed meanwhile */
        if (p == NULL)
            p = hk_magazine_refill_and_take(thread, cls, &moved);
    } else {
        p = refill_layer(thread, o, home, cls, &moved);
    }
    count(o, route, HK_LAYER_HEAP, p != NULL ? HK_MALLOC_HIT : HK_MALLOC_MISS, 1);
    if (moved != 0) {
        count(o, route, home, HK_REFILL, 1);
        count(o, route, home, HK_MOVED, moved);
    }
    return p;
}

static HK_NOINLINE void give_to_heap(hk_thread_t *thread, hk_observed_t *o, route_t route,
                                     void *p) {
    const unsigned cls = route.cls;
    hk_layer_t home = home_of(route);
    unsigned moved = 0;
    bool kept = true;
    if (home == HK_LAYER_HEAP) {
        hk_heap_give(&thread->heap, cls, &p, 1);
    } else if (home == HK_LAYER_HEAPV2) {
        moved = hk_magazine_flush_and_give(thread, cls, p);
    } else {
        moved = hk_layer_make_room(&o->layers, home, &thread->heap, cls);
        kept = hk_layer_give(&o->layers, home, cls, p);
    }
    hk_assert(kept);
    (void)kept;
    count(o, route, HK_LAYER_HEAP, HK_FREE_HIT, 1);
    if (moved != 0) {
        count(o, route, home, HK_FLUSH, 1);
        count(o, route, home, HK_MOVED, moved);
    }
}

/* ---- from layer to layer ---- */

/* With `passed` the route is computed once and passed down; without, each step derives it again
 * from the plan and the class. */
HK_INLINE void *take_by_route(hk_thread_t *thread, hk_observed_t *o, unsigned cls, bool passed) {
    const route_t known = route_of(thread, cls);
    for (hk_layer_t layer = 0; layer < HK_LAYER_HEAP; layer++) {
        route_t route = passed ? known : route_of(thread, cls);
        if ((route.layers & HK_LAYER_BIT(layer)) == 0)
            continue;
        void *p = layer == HK_LAYER_HEAPV2 ? hk_magazine_take(thread, cls)
                                           : hk_layer_take(&o->layers, layer, cls);
        count(o, route, layer, p != NULL ? HK_MALLOC_HIT : HK_MALLOC_MISS, 1);
        if (p != NULL)
            return p;
    }
    return take_from_heap(thread, o, passed ? known : route_of(thread, cls));
}

HK_INLINE void give_by_route(hk_thread_t *thread, hk_observed_t *o, unsigned cls, void *p,
                             bool passed) {
    const route_t known = route_of(thread, cls);
    for (hk_layer_t layer = 0; layer < HK_LAYER_HEAP; layer++) {
        route_t route = passed ? known : route_of(thread, cls);
        if ((route.layers & HK_LAYER_BIT(layer)) == 0)
            continue;
        bool kept = layer == HK_LAYER_HEAPV2 ? hk_magazine_give(thread, cls, p)
                                             : hk_layer_give(&o->layers, layer, cls, p);
        count(o, route, layer, kept ? HK_FREE_HIT : HK_FREE_MISS, 1);
        if (kept)
            return;
    }
    give_to_heap(thread, o, passed ? known : route_of(thread, cls), p);
}

/* ---- a new plan ---- */

/* Magazines grow when they are refilled. Behind a bound C7_HOT they never are, so they get their
 * full size at once. */
static void bind_c7(hk_thread_t *thread, hk_observed_t *o, unsigned plan) {
    for (unsigned cls = HK_C7_FIRST; cls <= HK_C7_LAST; cls++) {
        unsigned moved;
        if ((plan & HK_LAYER_BIT(HK_LAYER_HEAPV2)) != 0)
            hk_magazine_reserve(thread, cls, hk_classes[cls].refill);
        if ((plan & HK_PLAN_C7_EARLY) == 0 || hk_layers_count(&o->layers, cls) != 0)
            continue;
        void *p = refill_layer(thread, o, HK_LAYER_C7_HOT, cls, &moved);
        if (p != NULL && !hk_layer_give(&o->layers, HK_LAYER_C7_HOT, cls, p))
            hk_heap_give(&thread->heap, cls, &p, 1);
    }
}

/* Empties the research layers that are not in the plan. */
static void drain_but(hk_thread_t *thread, unsigned plan) {
    hk_observed_t *o = hk_load_relaxed(&thread->observed);
    const unsigned keep = plan | HK_LAYER_BIT(HK_LAYER_HEAPV2);
    for (hk_layer_t layer = 0; o != NULL && layer < HK_LAYER_HEAP; layer++)
        if ((keep & HK_LAYER_BIT(layer)) == 0)
            hk_layer_drain(&o->layers, layer, &thread->heap);
}

/* The thread settles on its new plan: layers that are not in it are emptied. Returns the plan to go
 * by; 0: there is no memory to observe with, and the next visit tries again. */
static HK_COLD unsigned settle(hk_thread_t *thread) {
    unsigned found = hk_load_relaxed(&thread->plan);
    const unsigned plan = found & ~(unsigned)HK_PLAN_NEW;
    hk_observed_t *o = hk_load_relaxed(&thread->observed);
    if (o == NULL && plan != 0) {
        o = hk_meta_alloc(sizeof *o);
        if (o == NULL)
            return 0;
        hk_store_release(&thread->observed, o);
    }
    drain_but(thread, plan);
    if (plan != 0 && (plan & HK_LAYER_BIT(HK_LAYER_HEAPV2)) == 0)
        hk_magazines_flush(thread);
    if ((plan & HK_PLAN_C7_BOUND) != 0)
        bind_c7(thread, o, plan);
    hk_cas_seq(&thread->plan, &found, plan); /* fails where there is a newer one already */
    hk_alone_tell(thread);
    return plan;
}

/* ---- operations ---- */

HK_INLINE unsigned plan_of(hk_thread_t *thread) {
    const unsigned plan = hk_load_relaxed(&thread->plan);
    return HK_UNLIKELY((plan & HK_PLAN_NEW) != 0) ? settle(thread) : plan;
}

void *hk_observed_take(hk_thread_t *thread, unsigned cls) {
    const unsigned plan = plan_of(thread);
    if (plan == 0)
        return hk_magazine_take_or_refill(thread, cls);
    hk_observed_t *o = hk_load_relaxed(&thread->observed);
    return (plan & HK_PLAN_PASSDOWN) != 0 ? take_by_route(thread, o, cls, true)
                                          : take_by_route(thread, o, cls, false);
}

void hk_observed_give(hk_thread_t *thread, unsigned cls, void *p) {
    const unsigned plan = plan_of(thread);
    hk_observed_t *o = hk_load_relaxed(&thread->observed);
    if (plan == 0)
        hk_magazine_give_or_flush(thread, cls, p);
    else if ((plan & HK_PLAN_PASSDOWN) != 0)
        give_by_route(thread, o, cls, p, true);
    else
        give_by_route(thread, o, cls, p, false);
}

void *hk_observed_malloc(hk_thread_t *thread, size_t n) {
    if (HK_UNLIKELY(n > HK_MID_MAX || !hk_gate_enter(thread)))
        return hk_malloc_long(n);
    thread->heap.wanted = n;
    void *p = hk_observed_take(thread, hk_class_of(n));
    hk_gate_leave(thread);
    hk_purger_start();
    return HK_LIKELY(p != NULL) ? p : hk_malloc_long(n);
}

/* The kind is 0 where there is no flat map, or p is not ours. */
void hk_observed_free(hk_thread_t *thread, void *p) {
    unsigned cls = (unsigned)hk_hit_kind(&thread->cache, p);
    if (HK_UNLIKELY(!hk_kind_is_class(cls) || hk_load_relaxed(&hk_large_aside) ||
                    !hk_gate_enter(thread))) {
        hk_free_long(p);
        return;
    }
    hk_observed_give(thread, cls, p);
    hk_purger_go_on();
    hk_gate_leave(thread);
}

/* ---- all threads ---- */

void hk_observed_flush(hk_thread_t *thread) { drain_but(thread, 0); }

void hk_observed_forget(hk_thread_t *thread) {
    hk_observed_t *o = hk_load_relaxed(&thread->observed);
    if (o != NULL)
        memset(&o->metrics, 0, sizeof o->metrics);
}

unsigned hk_observed_count(hk_thread_t *thread, unsigned cls) {
    hk_observed_t *o = hk_load_acquire(&thread->observed);
    return o == NULL ? 0 : hk_layers_count(&o->layers, cls);
}

static void apply(hk_thread_t *thread, void *unused) {
    (void)unused;
    hk_thread_plan_locked(thread);
}

bool hk_front_apply(void) {
    do /* repeated if it has changed meanwhile: two threads may do this at the same time */
        hk_sections_sample(hk_option(sections_sample));
    while (hk_load_seq(&hk_sections_every) != hk_option(sections_sample));
    hk_sampled_apply();
    const bool watched = hk_watched_apply();
    /* another thread may have asked already whether anything is guarded, and hand out a block
     * without marking it */
    const bool alone = hk_load_relaxed(&hk_purger_on_foot) && !hk_purger_has_company();
    const bool told = hk_threads_visit(apply, NULL);
    if (told && hk_guarded() && alone)
        hk_pool_all_guarded();
    return watched && told;
}

static void add_metrics(hk_thread_t *thread, void *sum) {
    hk_observed_t *o = hk_load_acquire(&thread->observed);
    if (o != NULL)
        hk_metrics_sum(sum, &o->metrics);
}

bool hk_front_metrics(hk_metrics_sum_t *sum) {
    memset(sum, 0, sizeof *sum);
    return hk_threads_visit(add_metrics, sum);
}
