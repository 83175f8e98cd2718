#include "policy/purger.h"

#include <errno.h>

#include "backend/demand.h"
#include "backend/heap.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/calls.h"
#include "base/lock.h"
#include "base/report.h"
#include "base/worker.h"
#include "config/config.h"
#include "os/os.h"
#include "policy/look.h"

/* A look is worth it after NOTED_BYTES were freed, or the NOTED_SHARE-th part of what is in use.
 * AT_ONCE steps are made between two rests, so that other threads get at the system's lock of the
 * address space; IDLE_LOOKS looks without effect send the purger to sleep; a step on foot takes
 * ON_FOOT_NS for each mebibyte. */
enum { NOTED_BYTES = 1 << 20, NOTED_SHARE = 32, AT_ONCE = 32, REST_MS = 2, IDLE_LOOKS = 2 };
enum { ON_FOOT_NS = 100000 };
enum {
    INTERVAL_MS = HK_HOSTILE ? 1 : 1000,
    SHORT_INTERVAL_MS = HK_HOSTILE ? 1 : 100,
    OLD_INTERVAL_MS = HK_HOSTILE ? 1 : 10,
    LONGEST_INTERVAL_MS = 64 * INTERVAL_MS,
    AGAIN_MS = 5 * INTERVAL_MS,
};

atomic_bool hk_purger_runs;
atomic_bool hk_purger_is_due;
atomic_bool hk_purger_on_foot = true;
atomic_bool hk_purger_in_child;

static _Atomic uint32_t noted;    /* atomic: counts what happens; the purger sleeps on it */
static atomic_bool stopping;      /* atomic: told to end; until the next one starts */
static atomic_bool asleep;        /* atomic: until woken, not only between two looks */
static atomic_size_t unnoted;     /* atomic: bytes freed that have not raised `noted` yet */
static atomic_size_t freed;       /* atomic: bytes freed that the next step on foot is for */
static atomic_size_t gathered;    /* atomic: bytes freed since a look was last due for them */
static atomic_bool much;          /* atomic: it is due for them, and has not begun */
static _Atomic uint64_t old_at;   /* atomic: milliseconds; when to look on foot for old memory */
static unsigned old_interval;     /* lock: look; milliseconds between two such looks */
static _Atomic uint64_t again_at; /* atomic: milliseconds; when to try again for a thread; 0: not */
/* atomic: the system's number of the last purger's thread; 0: that thread does not exist any
 * more */
static atomic_int number;

static void wake(void) {
    hk_add_seq(&noted, 1u);
    hk_os_wake(&noted);
}

void hk_policy_apply(void) {
    hk_look_forget();
    if (hk_load_seq(&hk_purger_runs))
        wake();
}

void hk_purger_stop(void) {
    if (!hk_load_seq(&hk_purger_runs))
        return;
    hk_store_seq(&stopping, true);
    wake();
}

bool hk_purger_is_ending(void) {
    if (hk_load_seq(&hk_purger_runs))
        return hk_load_seq(&stopping);
    int its = hk_load_seq(&number);
    if (its == 0)
        return false;
    const uint64_t own = HK_CALL(other, getpid());
    if (HK_KEEP_ERRNO(HK_CALL(other, syscall(SYS_tgkill, own, its, 0))) == 0)
        return true;
    (void)hk_cas_seq(&number, &its, 0);
    return false;
}

/* A look takes its time for each superslab, however little of it is in use: so what is handed out
 * counts as well. */
static size_t much_of_what_is_in_use(void) {
    return hk_max(hk_look_in_use(), hk_region_live() / 16) / NOTED_SHARE;
}

/* Also while no thread can be started: the threads that free do it then. */
static bool is_on_foot(void) {
    return hk_load_relaxed(&hk_purger_on_foot) || hk_load_relaxed(&again_at) != 0;
}

/* Much has been freed, or it is time to look for old memory. */
static bool is_due_on_foot(size_t bytes) {
    const size_t sum = hk_add_relaxed(&gathered, bytes) + bytes;
    if (hk_look_is_small())
        hk_store_relaxed(&hk_heap_sparse, (uint64_t)0); /* no look will clear it */
    if (!is_on_foot() || hk_look_is_small())
        return false;
    if (sum < hk_max(much_of_what_is_in_use(), hk_look_worth()))
        return hk_os_now_ms() >= hk_load_relaxed(&old_at);
    hk_store_relaxed(&gathered, (size_t)0);
    hk_store_relaxed(&much, true);
    return true;
}

void hk_purger_note_slow(size_t bytes) {
    const bool on_foot = !hk_load_relaxed(&hk_purger_runs);
    const size_t worth = on_foot ? 0 : much_of_what_is_in_use();
    const size_t sum = hk_add_relaxed(&unnoted, bytes) + bytes;
    if (sum < hk_max(worth, NOTED_BYTES))
        return;
    hk_store_relaxed(&unnoted, (size_t)0);
    if (on_foot) {
        hk_add_relaxed(&freed, sum);
        if (is_due_on_foot(sum))
            hk_store_relaxed(&hk_purger_is_due, true);
        return;
    }
    hk_add_seq(&noted, 1u);
    if (hk_load_seq(&asleep))
        hk_os_wake(&noted);
}

static void rest(unsigned ms) { hk_os_wait(&noted, hk_load_relaxed(&noted), ms); }

/* ---- on foot ---- */

/* When to look next for old memory. In a large heap more seldom, because a look takes some
 * microseconds for each superslab, and some tenths for each that there ever was; and each time more
 * seldom while there is nothing old, or no more than may stay. */
static void set_old_at(void) {
    const size_t units = hk_max(hk_region_live(), hk_pool_mapped_most() / 8) / HK_UNIT;
    const size_t least = hk_max(OLD_INTERVAL_MS, units / 16);
    const size_t most = hk_look_was_in_vain()  ? LONGEST_INTERVAL_MS
                        : hk_look_had_effect() ? least
                                               : hk_min(8 * least, LONGEST_INTERVAL_MS);
    old_interval = (unsigned)hk_min(hk_max(2 * old_interval, least), hk_max(most, least));
    hk_store_relaxed(&old_at, hk_os_now_ms() + old_interval);
}

/* Until its time is up, which is longer where one free has brought much: the rest is for the next
 * visit. As there may be none, it makes a step for each superslab's worth that was freed, however
 * long that takes: on a busy machine all of the time may pass while others run. */
HK_COLD void hk_purger_step(void) {
    const size_t mebibytes = hk_load_relaxed(&freed) / HK_MIB;
    const uint64_t mode = hk_lean_mode();
    const uint64_t now = hk_os_now_ns(), until = now + hk_max(mebibytes, 1) * ON_FOOT_NS;
    hk_store_relaxed(&freed, (size_t)0);
    hk_store_relaxed(&hk_purger_is_due, false);
    if (!is_on_foot() || hk_load_seq(&hk_purger_runs))
        return;
    if (!hk_look_is_small())
        hk_idle_step();
    if (!hk_lock_try(&hk_look_lock))
        return;
    bool more = hk_look_is_under_way();
    if (!more && !hk_look_is_small()) {
        hk_look_begin(!hk_load_relaxed(&much), true);
        hk_store_relaxed(&much, false);
        more = true;
    }
    for (size_t sure = mebibytes * HK_MIB / HK_UNIT; more && (sure != 0 || hk_os_now_ns() < until);
         sure -= sure != 0)
        more = hk_look_step(mode);
    if (!more && hk_look_is_for_old())
        set_old_at();
    hk_store_relaxed(&hk_purger_is_due, more);
    hk_unlock(&hk_look_lock);
}

/* ---- a thread ---- */

/* One look; false if it had no effect and the next one, unless something is freed, will have none.
 * *breathes: a later look may find more even so. */
static bool look(uint64_t mode, bool *breathes) {
    unsigned count = 0;
    hk_assert(hk_load_relaxed(&hk_purger_runs)); /* a fork's child has no such thread */
    hk_lock(&hk_look_lock);
    hk_look_begin(mode == HK_DECOMMIT_FREE, false);
    while (hk_look_step(mode)) {
        /* a thread that has just been woken would find the lock taken again */
        const bool awaited = hk_load_relaxed(&hk_look_lock.sleepers) != 0;
        hk_unlock(&hk_look_lock);
        hk_assert(hk_lock_may_take(HK_RANK_CONFIG)); /* no lock is held: no fork waits for it */
        if (++count % AT_ONCE == 0 || awaited)
            rest(REST_MS);
        hk_lock(&hk_look_lock);
    }
    const bool again = hk_look_had_effect();
    *breathes = hk_look_breathes();
    hk_unlock(&hk_look_lock);
    return again;
}

/* Sleeps until something is freed, unless `noted` is no longer `before`; or for so many
 * milliseconds, 0: for ever. */
static void sleep_since(uint32_t before, unsigned ms) {
    hk_assert(!hk_load_relaxed(&asleep) && hk_lock_may_take(HK_RANK_CONFIG));
    hk_store_seq(&asleep, true);
    if (hk_load_seq(&noted) == before)
        hk_os_wait(&noted, before, ms);
    hk_store_seq(&asleep, false);
}

/* The sooner of two times; 0: never. */
static unsigned soonest(unsigned a, unsigned b) {
    return a == 0 || b == 0 ? a + b : (unsigned)hk_min(a, b);
}

_Thread_local bool hk_is_purger;

static void purger(void) {
    unsigned idle_looks = 0;
    uint32_t before = 0;
    bool breathes;
    hk_is_purger = true;
    hk_store_seq(&number, HK_CALL(other, syscall(SYS_gettid)));
    for (uint64_t mode; (mode = hk_lean_mode()) != HK_DECOMMIT_OFF && !hk_load_seq(&stopping);) {
        const unsigned ms =
            mode == HK_DECOMMIT_DONTNEED && idle_looks == 0 ? SHORT_INTERVAL_MS : INTERVAL_MS;
        rest((unsigned)hk_max(ms, hk_pool_mapped_most() / (64 * HK_UNIT)));
        const uint32_t last = before;
        before = hk_load_seq(&noted);
        const unsigned wait = hk_idle_look(before != last, hk_os_now_ms());
        idle_looks = look(mode, &breathes) ? 0 : idle_looks + 1;
        if (idle_looks < IDLE_LOOKS || hk_lean_mode() != mode || hk_load_seq(&stopping))
            continue; /* `noted` may have been raised for these before it was read */
        if (hk_look_is_small())
            break;
        sleep_since(before, soonest(wait, breathes ? HK_DEMAND_MS : 0));
        idle_looks = 0;
    }
    hk_assert(hk_load_relaxed(&hk_purger_runs)); /* there was no second one */
    hk_store_seq(&hk_purger_runs, false);
}

static HK_COLD HK_NOINLINE void try_later(int error) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        hk_say("hakmem: warning: no thread can be started to give free memory back: %s "
               "(TasksMax=, ulimit -u, pids.max, a sandbox?); until one can, it goes back as more "
               "is freed, or by malloc_trim()",
               hk_error_text(error));
    hk_store_relaxed(&again_at, hk_os_now_ms() + AGAIN_MS);
    hk_store_seq(&hk_purger_runs, false);
}

HK_COLD void hk_purger_start_slow(void) {
    const uint64_t again = hk_load_relaxed(&again_at); /* a limit on threads may have gone since */
    if (hk_look_is_small() || (again != 0 && hk_os_now_ms() < again) || !hk_has_own_number() ||
        hk_exchange_seq(&hk_purger_runs, true))
        return;
    hk_assert(hk_lock_may_take(HK_RANK_CONFIG)); /* starting a thread allocates */
    hk_store_seq(&stopping, false);
    int saved = errno;
    const int error = hk_worker_start(purger);
    if (error != 0)
        try_later(error);
    else if (again != 0)
        hk_store_relaxed(&again_at, (uint64_t)0);
    errno = saved;
}

void hk_purger_forked(void) {
    hk_unlock(&hk_look_lock);
    hk_look_forked();
    hk_store_relaxed(&hk_purger_in_child, true);
    hk_store_seq(&stopping, false);
    hk_store_seq(&number, 0);
    hk_store_relaxed(&again_at, (uint64_t)0);
    hk_store_seq(&hk_purger_runs, false);
    hk_store_seq(&asleep, false);
}
