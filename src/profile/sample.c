#include "profile/sample.h"

#include "base/random.h"
#include "os/os.h"
#include "os/stack.h"

enum { MOST_FRAMES = 64 };

static _Atomic uint64_t mean, began; /* atomic: any thread reads */
static _Atomic uint64_t stream;      /* atomic: any thread */

void hk_profile_start(uint64_t bytes, uint64_t seed) {
    hk_profile_clear();
    hk_store_relaxed(&stream, seed);
    hk_store_relaxed(&mean, bytes);
    hk_store_relaxed(&began, hk_os_now_ns());
}

uint64_t hk_profile_mean(void) { return hk_load_relaxed(&mean); }
uint64_t hk_profile_began(void) { return hk_load_relaxed(&began); }

/* An exponentially distributed gap, rounded up; 0 if every allocation is a sample. By von Neumann's
 * method, without a logarithm: draws numbers as long as each is less than the one before. If their
 * count is even, which for a first number u has the chance exp(-u), u is the fractional part; else
 * the whole part grows by one and it starts again. */
static intptr_t gap(void) {
    const double r = (double)hk_load_relaxed(&mean);
    for (unsigned whole = 0; r != 0; whole++) {
        const uint32_t first = hk_random_shared(&stream, UINT32_MAX);
        bool even = true;
        for (uint32_t last = first, next;; last = next, even = !even)
            if ((next = hk_random_shared(&stream, UINT32_MAX)) >= last)
                break;
        if (even)
            return 1 + (intptr_t)((whole + first / 4294967296.0) * r);
    }
    return 0;
}

/* 1 - exp(-n/R): the series for a 1024th of n/R, then ten doublings. */
static double chance_of(size_t n) {
    const size_t r = hk_load_relaxed(&mean);
    if (r == 0 || n / 64 > r)
        return 1;
    const double y = (double)n / (double)r / 1024;
    double chance = y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4)));
    for (unsigned i = 0; i < 10; i++)
        chance *= 2 - chance;
    return chance;
}

/* Without a countdown each allocation draws its own gap, which is as good: exponential gaps have no
 * memory. */
bool hk_profile_given(void **own, const void *p, size_t n, bool waits) {
    void *nothing = NULL, *frames[MOST_FRAMES];
    if (own == NULL)
        own = &nothing;
    if (*own == NULL)
        *own = (void *)gap();
    if (hk_profile_passes(own, n))
        return false;
    *own = (void *)gap();
    hk_profile_add(p, n, chance_of(n), frames, hk_stack_read(frames, MOST_FRAMES), waits);
    return true;
}
