#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/calls.h"

enum { SPINS = 128, NAP_NS = 50000, LONGEST_SLEEP_NS = 500000 };

HK_INLINE void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(atomic_uint *word, unsigned value, long ns) {
    const struct timespec most = {.tv_sec = 0, .tv_nsec = ns};
    int saved = errno; /* free must not change it */
    HK_CALL(futex, syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0));
    errno = saved;
}

HK_COLD void hk_lock_pause(unsigned tries) {
    static atomic_uint nobody_wakes;
    if (tries < SPINS)
        relax();
    else
        sleep_while(&nobody_wakes, 0, NAP_NS);
}

/* Sleeping, rather than yielding, keeps a real-time thread from starving the holder. A wake is
 * missed where the holder looks for sleepers before its store is seen: hence the time limit. */
HK_COLD void hk_lock_wait(hk_lock_t *lock) {
    for (unsigned tries = 0;; tries++) {
        if (hk_load_relaxed(&lock->taken) == 0 && hk_exchange_acquire(&lock->taken, 1u) == 0)
            return;
        if (tries < SPINS) {
            relax();
            continue;
        }
        hk_add_seq(&lock->sleepers, 1u);
        sleep_while(&lock->taken, 1, LONGEST_SLEEP_NS);
        hk_assert(hk_load_relaxed(&lock->sleepers) != 0); /* this thread is one */
        hk_sub_relaxed(&lock->sleepers, 1u);
    }
}

HK_COLD void hk_lock_wake(hk_lock_t *lock) {
    int saved = errno;
    HK_CALL(futex, syscall(SYS_futex, &lock->taken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    errno = saved;
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

bool hk_lock_is_mine(const hk_lock_t *lock) {
    return hk_load_relaxed(&lock->taken) != 0 && held[lock->rank] != 0;
}

bool hk_lock_may_take(hk_rank_t rank) {
    unsigned count = 0;
    for (unsigned r = rank; r <= HK_RANK_META; r++)
        count += held[r];
    return count == 0;
}

void hk_lock_check(const hk_lock_t *lock, bool tried) {
    hk_assert(lock->rank <= HK_RANK_META); /* it has been initialised, and not overwritten */
    for (unsigned r = lock->rank; r <= HK_RANK_META; r++)
        hk_assert(held[r] == 0 || (tried && r == (unsigned)lock->rank));
}

void hk_lock_note(const hk_lock_t *lock, bool taken) {
    hk_assert(hk_load_relaxed(&lock->taken) == 1); /* also when it is about to be given back */
    hk_assert(taken || held[lock->rank] > 0);
    held[lock->rank] = (unsigned char)(taken ? held[lock->rank] + 1 : held[lock->rank] - 1);
}
#endif
