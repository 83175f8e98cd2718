#include "front/alone.h"

#include "front/crowd.h"
#include "front/observed.h"
#include "front/watched.h"
#include "guard/sample.h"
#include "observe/plan.h"

_Atomic unsigned char hk_alone;

static unsigned char alone(void) {
    const unsigned plan = HK_FAST ? 0 : hk_plan_from_options();
    if (hk_sampling() || hk_watched() != HK_WATCHED_NOT)
        return HK_ALONE_NOT;
    if (hk_guarded())
        return HK_ALONE_GUARDED;
    if (plan == 0 && hk_threads_are_many())
        return HK_ALONE_CROWD;
    return plan == HK_MAGAZINES_COUNTED ? HK_ALONE_COUNTED : HK_ALONE_NOT;
}

void hk_alone_look_locked(void) { hk_store_seq(&hk_alone, alone()); }

/* Repeated if something has changed meanwhile. Whoever changes it comes here afterwards, so the last
 * to store has seen all changes. A plan that is new to its thread still has HK_PLAN_NEW. */
void hk_alone_tell(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    unsigned plan;
    unsigned char is;
    if (rest == NULL)
        return;
    do {
        is = hk_load_seq(&hk_alone);
        plan = hk_load_seq(&thread->plan);
        const bool counted = is == HK_ALONE_COUNTED && plan == HK_MAGAZINES_COUNTED;
        const bool guarded = is == HK_ALONE_GUARDED;
        hk_store_seq(&rest->trap.counted, counted ? hk_load_acquire(&thread->observed) : NULL);
        hk_store_seq(&rest->trap.guarded, guarded ? hk_load_acquire(&thread->quarantine) : NULL);
    } while (hk_load_seq(&hk_alone) != is || hk_load_seq(&thread->plan) != plan);
}
