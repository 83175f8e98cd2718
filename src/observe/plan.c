#include "observe/plan.h"

#include "config/config.h"

unsigned hk_plan_from_options(void) {
    static const unsigned product = HK_LAYER_BIT(HK_LAYER_HEAPV2);
    static const unsigned bound[] = {0, HK_PLAN_C7_BOUND, HK_PLAN_C7_BOUND | HK_PLAN_C7_EARLY};
    if (hk_option(guard) != 0) /* the guard needs each operation at the boundary */
        return product | HK_PLAN_OBSERVED;
    unsigned plan = hk_option(no_heapv2) != 0 ? 0 : product;
    if (hk_option(ultrahot) != 0)
        plan |= HK_LAYER_BIT(HK_LAYER_ULTRAHOT);
    if (hk_option(c7_hot) != 0)
        plan |= HK_LAYER_BIT(HK_LAYER_C7_HOT) | bound[hk_option(c7_bind)];
    if (hk_option(sll) != 0)
        plan |= HK_LAYER_BIT(HK_LAYER_SLL);
    if (hk_option(unified) != 0)
        plan |= HK_LAYER_BIT(HK_LAYER_UNIFIED);
    if (hk_option(front_metrics) != 0)
        plan |= HK_PLAN_METRICS;
    if (hk_option(passdown) != 0)
        plan |= HK_PLAN_PASSDOWN;
    return plan == product ? 0 : plan | HK_PLAN_OBSERVED;
}
