#include "base/lock.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/calls.h"

enum { SPINS_BEFORE_YIELD = 64, YIELDS_BEFORE_SLEEP = 64, SLEEP_NS = 50000 };

HK_INLINE void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeping in the end, rather than only yielding, keeps a real-time thread from starving the
 * holder. */
HK_COLD void hk_lock_pause(unsigned tries) {
    static const struct timespec nap = {.tv_sec = 0, .tv_nsec = SLEEP_NS};
    int saved = errno; /* free must not change it */
    if (tries < SPINS_BEFORE_YIELD)
        relax();
    else if (tries < SPINS_BEFORE_YIELD + YIELDS_BEFORE_SLEEP)
        HK_CALL(sched_yield, sched_yield());
    else
        HK_CALL(nanosleep, nanosleep(&nap, NULL));
    errno = saved;
}

HK_COLD void hk_lock_wait(hk_lock_t *lock) {
    for (unsigned tries = 0;; tries++) {
        if (hk_load_relaxed(&lock->taken) == 0 && hk_exchange_acquire(&lock->taken, 1u) == 0)
            return;
        hk_lock_pause(tries);
    }
}

bool hk_lock_unless(hk_lock_t *lock, const atomic_bool *never) {
    for (unsigned tries = 0; !hk_lock_try(lock); tries++) {
        if (hk_load_seq(never))
            return false;
        hk_lock_pause(tries);
    }
    return true;
}

#if HK_DEBUG
/* How many locks of each rank this thread holds. */
static _Thread_local unsigned char held[HK_RANK_META + 1];

void hk_lock_check(const hk_lock_t *lock, bool tried) {
    for (unsigned r = lock->rank; r <= HK_RANK_META; r++)
        hk_assert(held[r] == 0 || (tried && r == (unsigned)lock->rank));
}

void hk_lock_note(const hk_lock_t *lock, bool taken) {
    hk_assert(taken || held[lock->rank] > 0);
    held[lock->rank] = (unsigned char)(taken ? held[lock->rank] + 1 : held[lock->rank] - 1);
}
#endif
