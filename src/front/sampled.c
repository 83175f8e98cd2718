#include "front/sampled.h"

#include "config/config.h"
#include "front/thread_own.h"
#include "os/stack.h"

void hk_sampled_apply(void) {
    if (!hk_sampling())
        return;
    /* entered, or a fork might find the lock of that memory taken */
    hk_thread_t *thread = hk_thread_enter_patiently();
    const bool can = thread != NULL && hk_sample_prepare();
    if (thread != NULL)
        hk_thread_leave(thread);
    if (can)
        hk_stack_prepare();
    else
        hk_config_warn("HAKMEM_GUARD_SAMPLE", "",
                       "there is no memory for it, or a fork is under way", "nothing is sampled");
}

/* Reading the stack may allocate: such an allocation is no sample. */
static HK_COLD void *sample(hk_thread_rest_t *rest, size_t n, size_t align, hk_by_t by) {
    hk_store_relaxed(&rest->until_sample, UINT32_MAX);
    void *p = hk_sample_alloc(n, align, by);
    hk_store_relaxed(&rest->until_sample, hk_sample_gap());
    return p;
}

void *hk_sampled_malloc(hk_thread_t *thread, size_t n, size_t align, hk_by_t by) {
    hk_thread_rest_t *rest = thread != NULL ? hk_load_relaxed(&thread->rest) : NULL;
    if (HK_UNLIKELY(rest == NULL))
        return NULL;
    const unsigned left = hk_load_relaxed(&rest->until_sample);
    hk_store_relaxed(&rest->until_sample, left != 0 ? left - 1 : hk_sample_gap());
    if (HK_LIKELY(left != 1))
        return NULL;
    return sample(rest, n, align, by);
}
