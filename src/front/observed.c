#include "front/observed.h"

#include "front/boundary.h"
#include "front/magazine.h"
#include "observe/plan.h"

#if !HK_FAST

static void apply(hk_thread_t *thread, void *unused) {
    (void)unused;
    hk_thread_plan_locked(thread);
}

void hk_front_apply(void) { hk_threads_visit(apply, NULL); }

static void settle(hk_thread_t *thread) {
    unsigned plan = hk_load_relaxed(&thread->plan);
    if (plan & HK_PLAN_NEW)
        hk_cas_seq(&thread->plan, &plan, plan & ~(unsigned)HK_PLAN_NEW);
}

void *hk_observed_take(hk_thread_t *thread, unsigned cls) {
    settle(thread);
    return hk_magazine_take_or_refill(thread, cls);
}

void hk_observed_give(hk_thread_t *thread, unsigned cls, void *p) {
    settle(thread);
    hk_magazine_give_or_flush(thread, cls, p);
}

#else

void hk_front_apply(void) {}

#endif
