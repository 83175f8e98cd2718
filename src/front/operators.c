#include "front/operators.h"

#include "backend/sizeclass.h"

hk_derived_t hk_derived;

/* In an archive the linker decides what a name means. */
bool hk_operators_look(void) {
#if HK_NO_OVERRIDE
    return true;
#else
#define IS_OURS(name, ...) (uintptr_t) HK_SERVING(name) == (uintptr_t)hk_own##name &&
    if (!(HK_CALLED_OPERATORS(IS_OURS) true))
        return false;
    hk_store_relaxed(&hk_derived.end, (size_t)HK_MID_MAX + 1);
    hk_store_relaxed(&hk_derived.most, (size_t)HK_MID_MAX);
    return true;
#endif
}
