/* The observed front: what the boundary does for a thread that goes by its trap cache, so that each
 * of its operations comes there. */
#ifndef HK_FRONT_OBSERVED_H
#define HK_FRONT_OBSERVED_H

#include "front/thread.h"

/* Whether the entered thread is observed, or was and has not put things in order since. */
HK_INLINE bool hk_observed(const hk_thread_t *thread) {
    return !HK_FAST && hk_load_relaxed(&thread->plan) != 0;
}

#if !HK_FAST
/* A block of class cls by way of the layers of the thread's plan; NULL when out of memory. */
void *hk_observed_take(hk_thread_t *thread, unsigned cls);

/* Gives a block of class cls to them. */
void hk_observed_give(hk_thread_t *thread, unsigned cls, void *p);
#endif

#endif
