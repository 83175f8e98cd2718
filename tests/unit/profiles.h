/* Sums up what a heap profile recorded for the test's own allocations. */
#pragma once

#include "check.h"
#include "front/boundary.h"
#include "front/watched.h"
#include "hakmem/hakmem.h"
#include "os/stack.h"
#include "profile/sample.h"

/* Marks a function whose allocations count: they are recognized by return addresses in its section.
 * Other allocations of the process do not count. */
#define COUNTED __attribute__((noinline, section("of_the_test")))
extern const char __start_of_the_test[], __stop_of_the_test[];

COUNTED static void *take(size_t n) {
    void *p = hak_malloc(n);
    __asm__ volatile("" ::: "memory"); /* prevents a tail call, which would leave no frame */
    return p;
}

static inline bool is_counted(const void *frame) {
    return (const char *)frame >= __start_of_the_test && (const char *)frame < __stop_of_the_test;
}

static inline unsigned counted_frames(const hk_profile_stack_t *s) {
    unsigned n = 0;
    for (unsigned i = 0; i < s->count; i++)
        n += is_counted(s->frames[i]);
    return n;
}

typedef struct {
    uint64_t samples, objects, bytes;
} sums_t;

static inline sums_t add(sums_t sums, const hk_profile_sums_t *more) {
    return (sums_t){sums.samples + hk_load_relaxed(&more->objects),
                    sums.objects + hk_load_relaxed(&more->all_objects),
                    sums.bytes + hk_load_relaxed(&more->all_bytes)};
}

/* Sums of what is in use, or of all that was `ever` allocated. */
static inline sums_t counted(bool ever) {
    sums_t sums = {0};
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before)
        if (counted_frames(s) != 0)
            sums = add(sums, ever ? &s->allocated : &s->in_use);
    sums.objects = (sums.objects + HK_PROFILE_OBJECT / 2) / HK_PROFILE_OBJECT;
    return sums;
}

static inline void expect_exactly(bool ever, uint64_t objects, uint64_t bytes) {
    const sums_t sums = counted(ever);
    CHECK_EQ(sums.samples, objects);
    CHECK_EQ(sums.objects, objects);
    CHECK_EQ(sums.bytes, bytes);
}

/* Whether samples are blocks apart from their class, as at the default rate, so that all other
 * operations may be hits. */
static bool apart;

/* Samples one in `bytes` bytes from now on. The two large blocks end the countdown that the thread
 * began at another rate. */
static inline void sample_one_in(uint64_t bytes) {
    CHECK(hak_ctl("HAKMEM_PROF", "0", NULL, 0) == 0);
    CHECK(hak_ctl("HAKMEM_PROF", "1", NULL, 0) == 0);
    hk_profile_start(bytes, 12345);
    if (!apart)
        hk_front_apply();
    hak_free(hak_malloc((size_t)1 << 24));
    hak_free(hak_malloc((size_t)1 << 24));
    hk_profile_start(bytes, 12345);
}

/* Call before the first profile; false: no stacks can be taken, so no profile is possible. */
static inline bool can_profile(void) {
    if (!hk_stack_prepare())
        return false;
    /* else a counted function might start the purger's thread, whose memory would count too */
    CHECK(hak_ctl("HAKMEM_SS_MEM_LEAN_DECOMMIT", "OFF", NULL, 0) == 0);
    return true;
}
