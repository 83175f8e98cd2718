/* Idle threads. No other thread can take blocks out of a thread's magazines, for a hit locks
 * nothing; and each block keeps an OS page from going back. So where a thread pool has had its peak
 * and sleeps, they are most of what stays.
 *
 * The purger finds out which threads are idle, and takes all but the top block of each of their
 * magazines:
 *
 *   1. It sets the thread's trap (front/thread.h), by which operations come to the boundary. A
 *      thread that enters there has sprung it, and is not idle.
 *   2. A second later it holds a thread that has not sprung it outside the boundary, as a fork
 *      does. The thread may still be in one hit, which was interrupted before step 1 by the system,
 *      or by a signal whose handler waits. That hit is about the top block or the slot above it:
 *      the purger gives back the blocks below, and writes NULL in their slots.
 *   3. The trap stays. When the thread comes to the boundary by it, it closes its magazines' ranks
 *      and goes by its cache again.
 *
 * A thread that comes while it is held waits for the end of that, which is soon. */
#include "config/config.h"
#include "front/guarded.h"
#include "front/magazine.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "observe/plan.h"
#include "policy/purger.h"

/* Milliseconds from setting traps to looking at them: IDLE_MS at first, up to LONGEST_MS while each
 * look finds threads that sprang theirs and nothing is freed. Magazines that hold less than WORTH
 * bytes are not worth it. */
enum { IDLE_MS = HK_HOSTILE ? 1 : 1000, LONGEST_MS = 64 * IDLE_MS };
#define WORTH (HK_HOSTILE ? 64 : 32 * HK_KIB)

/* Not where an option says how much a thread may hold, or begins with: those blocks are wanted. Nor
 * where operations are guarded, sampled or watched. */
static bool is_wanted(void) {
    return hk_option_origin(tcache_kb) == HK_FROM_DEFAULT && !hk_prewarm_is_wanted() &&
           !hk_guarded() && !hk_sampling() && hk_watched() == HK_WATCHED_NOT;
}

static size_t held(const hk_thread_t *thread) {
    size_t bytes = 0;
    for (unsigned cls = 1, end = hk_class_end(); cls < end; cls++)
        bytes += (size_t)hk_magazine_count(thread, cls) * hk_classes[cls].size;
    return bytes;
}

/* Gives back all but the top block; returns how many. The thread is held outside, and its trap was
 * set a look ago. */
static unsigned take_most(hk_thread_t *thread, unsigned cls) {
    _Atomic(void *) *slots = (_Atomic(void *) *)hk_magazine_slots(thread, cls);
    const unsigned n = (unsigned)hk_minus(hk_magazine_held(thread, cls), 1);
    for (unsigned i = 1; i <= n; i++) {
        hk_heap_give_idle(cls, hk_load_relaxed(&slots[i]));
        hk_store_relaxed(&slots[i], NULL);
    }
    return n;
}

static void rob(hk_thread_t *thread, hk_thread_rest_t *rest) {
    for (unsigned cls = 1, end = hk_class_end(); cls < end; cls++)
        hk_store_relaxed(&rest->emptied[cls], (uint16_t)take_most(thread, cls));
    hk_store_relaxed(&thread->idle, (unsigned char)HK_ROBBED);
}

/* Whether the thread's trap is set because it is observed. HK_PLAN_NEW alone says that it no longer
 * is, and has yet to act on that. */
static bool is_observed(const hk_thread_t *thread) {
    return (hk_load_seq(&thread->plan) & ~(unsigned)HK_PLAN_NEW) != 0;
}

/* True: the thread's trap is set now, for the next look. */
static bool look_at_locked(hk_thread_t *thread) {
    unsigned outside = HK_OUTSIDE;
    if (thread->tc == NULL)
        return false; /* an orphan's: before its cache lines are fetched */
    hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    const unsigned idle = hk_load_relaxed(&thread->idle);
    if (rest == NULL || idle == HK_ROBBED || held(thread) < WORTH || is_observed(thread) ||
        !hk_is_there_locked(thread) || !hk_cas_acquire(&thread->gate, &outside, (unsigned)HK_HELD))
        return false;
    const bool slept = idle == HK_TRAPPED && hk_load_relaxed(thread->tc) == &rest->trap;
    if (slept)
        rob(thread, rest);
    else
        hk_store_relaxed(&thread->idle, (unsigned char)HK_TRAPPED);
    hk_store_release(thread->tc, &rest->trap);
    hk_gate_leave(thread);
    hk_store_relaxed(&hk_held_for_good, false);
    return !slept;
}

static unsigned look_at_all(void) {
    unsigned trapped = 0;
    hk_lock(&hk_registry);
    for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next) {
        trapped += look_at_locked(thread);
        hk_unlock(&hk_registry); /* other threads want it, and records are never freed */
        hk_lock(&hk_registry);
    }
    hk_unlock(&hk_registry);
    return trapped;
}

/* atomic: any thread; set in a fork's child: records may hold blocks of the parent's threads */
static atomic_bool left_behind;

void hk_idle_forked(void) { hk_store_relaxed(&left_behind, true); }

/* Under a guard the records stay as they are, because of the blocks in their quarantines. */
bool hk_idle_step(void) {
    const bool more =
        hk_load_relaxed(&left_behind) && !hk_guarded() && hk_threads_cool_orphans(false);
    if (!more && hk_load_relaxed(&left_behind) && !hk_fork_is_mine())
        hk_store_relaxed(&left_behind, false);
    return more;
}

unsigned hk_idle_look(bool freed, uint64_t now) {
    static uint64_t next;     /* the purger's; milliseconds; when to look again */
    static unsigned interval; /* the purger's; milliseconds; to the look after that; 0: none */
    while (hk_idle_step())
        continue;
    if (freed) {
        interval = IDLE_MS;
        next = next < now + interval ? next : now + interval;
    }
    if (now < next)
        return (unsigned)(next - now);
    if (interval == 0 || !is_wanted() || look_at_all() == 0)
        return interval = 0;
    next = now + interval;
    interval = (unsigned)hk_min(2 * interval, LONGEST_MS);
    return (unsigned)(next - now);
}

/* ---- the thread ---- */

/* The blocks left in a magazine lie above the slots that were emptied. */
HK_COLD void hk_idle_over(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (hk_load_relaxed(&thread->idle) == HK_ROBBED)
        for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
            const unsigned taken = hk_load_relaxed(&rest->emptied[cls]);
            if (taken != 0)
                hk_magazine_close_ranks(thread, cls, taken);
        }
    hk_store_relaxed(&thread->idle, (unsigned char)HK_AWAKE);
    if (thread->tc != &hk_tc)
        return; /* an orphan's record */
    /* A thread that changes the plan stores it first, and then points this thread to its trap or
     * its cache. So the last of the two that points goes by the latest plan. */
    bool observed;
    do {
        observed = is_observed(thread);
        hk_store_seq(&hk_tc, observed ? &rest->trap : &thread->cache);
    } while (is_observed(thread) != observed);
}
