/* Shelves of one processor, and what lies on them. */
#pragma once

#include <sched.h>

#include "front/crowd.h"
#include "magazines.h"

static inline unsigned on_shelves(unsigned cls) {
    size_t blocks[HK_CLASS_COUNT] = {0};
    hk_crowds_add_held(blocks);
    return (unsigned)blocks[cls];
}

/* The calling thread's record; there are many threads, and their shelves are those of one processor. */
static inline hk_thread_t *of_one_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    hak_free(hak_malloc(64));
    hk_crowds_gather_locked(true);
    void *p = hk_crowd_take(own_record(), hk_class_of(64)); /* which makes them */
    CHECK(p != NULL);
    hk_crowd_give(own_record(), hk_class_of(64), p);
    return own_record();
}

static inline void take_all(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        CHECK((blocks[i] = hk_crowd_take(thread, cls)) != NULL);
        memset(blocks[i], 1, hk_classes[cls].size);
    }
}
