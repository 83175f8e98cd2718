/* Switches the layers of the observed front through its options, as hak_ctl does, for tests that
 * try all sets of layers. */
#ifndef UNIT_LAYERS_H
#define UNIT_LAYERS_H

#include "config/config.h"
#include "front/boundary.h"
#include "observe/plan.h"

/* Sets the options so that every thread's front follows the plan. */
static inline void set_plan(unsigned plan) {
    hk_store_relaxed(&hk_config.no_heapv2, (plan & HK_LAYER_BIT(HK_LAYER_HEAPV2)) == 0);
    hk_store_relaxed(&hk_config.ultrahot, (plan & HK_LAYER_BIT(HK_LAYER_ULTRAHOT)) != 0);
    hk_store_relaxed(&hk_config.c7_hot, (plan & HK_LAYER_BIT(HK_LAYER_C7_HOT)) != 0);
    hk_store_relaxed(&hk_config.sll, (plan & HK_LAYER_BIT(HK_LAYER_SLL)) != 0);
    hk_store_relaxed(&hk_config.unified, (plan & HK_LAYER_BIT(HK_LAYER_UNIFIED)) != 0);
    hk_store_relaxed(&hk_config.front_metrics, (plan & HK_PLAN_METRICS) != 0);
    hk_store_relaxed(&hk_config.passdown, (plan & HK_PLAN_PASSDOWN) != 0);
    hk_store_relaxed(&hk_config.c7_bind, (plan & HK_PLAN_C7_EARLY) != 0   ? 2
                                         : (plan & HK_PLAN_C7_BOUND) != 0 ? 1
                                                                          : 0);
    hk_front_apply();
}

/* The product: magazines alone, unobserved. */
static const unsigned plan_of_the_product = HK_LAYER_BIT(HK_LAYER_HEAPV2);

#endif
