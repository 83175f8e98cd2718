/* Puts the calling thread into the crowd, with the shelves of one processor, and counts the blocks
 * on these. */
#pragma once

#include <sched.h>

#include "front/crowd.h"
#include "magazines.h"

static inline unsigned on_shelves(unsigned cls) {
    size_t blocks[HK_CLASS_COUNT] = {0};
    hk_crowds_add_held(blocks);
    return (unsigned)blocks[cls];
}

static inline void *crowd_block(hk_thread_t *thread, unsigned cls) {
    unsigned moved;
    return hk_crowd_take(thread, cls, &moved);
}

/* Pins the calling thread to its processor, pretends that threads are many, and returns its
 * record. */
static inline hk_thread_t *of_one_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    hak_free(hak_malloc(64));
    hk_crowds_gather_locked(true);
    void *p = crowd_block(own_record(), hk_class_of(64)); /* creates the shelves */
    CHECK(p != NULL);
    hk_crowd_give(own_record(), hk_class_of(64), p);
    return own_record();
}

static inline void take_all(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        CHECK((blocks[i] = crowd_block(thread, cls)) != NULL);
        memset(blocks[i], 1, hk_classes[cls].size);
    }
}
