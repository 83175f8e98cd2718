#include "base/lock.h"

#include <time.h>

#include "base/calls.h"

enum { SPINS = 128, NAP_NS = 50000, LONGEST_SLEEP_NS = 500000, MOST_OTHERS = 999 };

HK_INLINE void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Sleeping times grow with the number of sleepers: a thousand threads that woke every half
 * millisecond would leave the lock's holder no processor. */
static unsigned sleep_among(atomic_uint *sleepers, atomic_uint *word, unsigned value, long ns) {
    const unsigned all = 1 + (unsigned)hk_min(hk_add_seq(sleepers, 1u), MOST_OTHERS);
    const struct timespec most = {.tv_nsec = (long)all * ns};
    hk_futex(word, HK_FUTEX_WAIT, value, &most);
    if (hk_load_relaxed(sleepers) !=
        0) /* 0 in the child of a fork by this thread's signal handler */
        hk_sub_relaxed(sleepers, 1u);
    return all;
}

static atomic_uint nobody_wakes, napping; /* atomic: any thread */

HK_COLD unsigned hk_lock_pause(unsigned tries) {
    if (tries >= SPINS)
        return sleep_among(&napping, &nobody_wakes, 0, NAP_NS);
    relax();
    return 1;
}

void hk_lock_forked(hk_lock_t *lock) {
    hk_store_relaxed(&lock->sleepers, 0u);
    hk_store_relaxed(&napping, 0u);
}

/* Waiters sleep, not yield, so that a real-time thread does not starve the holder. The holder may
 * miss a sleeper if it checks before its store is visible: hence the time limit. */
bool hk_lock_wait(hk_lock_t *lock, const atomic_bool *never) {
    for (unsigned tries = 0;; tries++) {
        if (hk_load_relaxed(&lock->taken) == 0 && hk_exchange_acquire(&lock->taken, 1u) == 0)
            return true;
        if (never != NULL && hk_load_seq(never))
            return false;
        if (tries < SPINS)
            relax();
        else
            sleep_among(&lock->sleepers, &lock->taken, 1, LONGEST_SLEEP_NS);
    }
}

HK_COLD void hk_lock_wake(hk_lock_t *lock) { hk_futex(&lock->taken, HK_FUTEX_WAKE, 1, NULL); }

bool hk_lock_unless(hk_lock_t *lock, const atomic_bool *never) {
    hk_walk(hk_lock_check(lock, true));
    if (!hk_lock_wait(lock, never))
        return false;
    hk_walk(hk_lock_note(lock, true));
    return true;
}

bool hk_lock_patiently(hk_lock_t *lock, unsigned most_tries) {
    for (unsigned tries = 0; !hk_lock_try(lock); tries += hk_lock_pause(tries))
        if (tries >= most_tries)
            return false;
    return true;
}

#if HK_DEBUG
/* How many locks of each rank this thread holds. */
static _Thread_local unsigned char held[HK_RANKS];

bool hk_lock_is_mine(const hk_lock_t *lock) {
    return hk_load_relaxed(&lock->taken) != 0 && held[lock->rank] != 0;
}

/* Whether the thread holds a lock of rank `from` or higher and so may not take one of `rank`. The
 * rank of samples does not count: a signal handler may interrupt its holder, and no thread that
 * holds another lock waits for that one. */
static bool holds_any(unsigned from, hk_rank_t rank) {
    unsigned r = from;
    while (r < HK_RANKS && (held[r] == 0 || (r == HK_RANK_PROFILE && rank != HK_RANK_PROFILE)))
        r++;
    return r < HK_RANKS;
}

bool hk_lock_may_take(hk_rank_t rank) { return !holds_any(rank, rank); }

void hk_lock_check(const hk_lock_t *lock, bool tried) {
    hk_assert(lock->rank < HK_RANKS); /* initialised, and not overwritten */
    hk_assert(!holds_any(lock->rank + (tried ? 1u : 0), lock->rank));
}

void hk_lock_note(const hk_lock_t *lock, bool taken) {
    hk_assert(hk_load_relaxed(&lock->taken) == 1); /* also just before it is released */
    hk_assert(taken || held[lock->rank] > 0);
    held[lock->rank] = (unsigned char)(taken ? held[lock->rank] + 1 : held[lock->rank] - 1);
}
#endif
