/* What idle threads hold. A magazine's blocks are out of others' reach, for a hit locks nothing; and each keeps a page from
 * going back. So where a thread pool has had its peak and sleeps, they are most of what stays.
 *
 * The purger finds out who is idle, and takes all but the block on top of each magazine:
 *
 *   1. It sets the thread's trap (front/thread.h). Whoever springs it, by any operation, is not idle.
 *   2. A second later it holds those who have not outside the boundary, as a fork does. All that they can still be in is one hit that
 *      was interrupted before the first step, by the system or a signal whose handler waits. That hit is about the top block or the slot above
 *      it; what lies below is given back, and NULL written in its place.
 *   3. The trap stays. When the thread comes to the boundary by it, it closes its magazines' ranks and goes by its cache again.
 *
 * A thread that comes while it is held waits for the end of that, which is soon. */
#include "config/config.h"
#include "front/guarded.h"
#include "front/magazine.h"
#include "front/prewarm.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "policy/purger.h"

/* So long a thread is left to spring its trap, and up to so long if each does; and so many bytes in its magazines are worth it. */
enum { IDLE_MS = HK_HOSTILE ? 1 : 1000, LONGEST_MS = 64 * IDLE_MS };
#define WORTH (HK_HOSTILE ? 64 : 32 * HK_KIB)

/* Who has said how much a thread may hold, or what it begins with, wants it to be there. */
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

/* All but the top block; how many. The thread is held outside, and its trap has been set for long. */
static unsigned take_most(hk_thread_t *thread, unsigned cls) {
    _Atomic(void *) *slots = (_Atomic(void *) *)hk_magazine_slots(thread, cls);
    const unsigned n = (unsigned)hk_minus(hk_magazine_held(thread, cls), 1);
    for (unsigned i = 1; i <= n; i++) {
        hk_heap_give_remote(cls, hk_load_relaxed(&slots[i]));
        hk_store_relaxed(&slots[i], NULL);
    }
    return n;
}

static void rob(hk_thread_t *thread, hk_thread_rest_t *rest) {
    for (unsigned cls = 1, end = hk_class_end(); cls < end; cls++)
        hk_store_relaxed(&rest->emptied[cls], (uint16_t)take_most(thread, cls));
    hk_store_relaxed(&thread->idle, (unsigned char)HK_ROBBED);
}

/* Whether the thread has a trap to spring from now on. */
static bool look_at_locked(hk_thread_t *thread) {
    unsigned outside = HK_OUTSIDE;
    hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    const unsigned idle = hk_load_relaxed(&thread->idle);
    if (rest == NULL || idle == HK_ROBBED || held(thread) < WORTH ||
        hk_load_relaxed(&thread->plan) != 0 || !hk_is_there_locked(thread) ||
        !hk_cas_acquire(&thread->gate, &outside, (unsigned)HK_HELD))
        return false;
    const bool slept = idle == HK_TRAPPED && hk_load_relaxed(thread->tc) == &rest->trap;
    if (slept)
        rob(thread, rest);
    else
        hk_store_relaxed(&thread->idle, (unsigned char)HK_TRAPPED);
    hk_store_release(thread->tc, &rest->trap);
    hk_gate_leave(thread);
    return !slept;
}

static unsigned look_at_all(void) {
    unsigned trapped = 0;
    hk_lock(&hk_registry);
    for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next) {
        trapped += look_at_locked(thread);
        hk_unlock(&hk_registry); /* others want it, and records stay */
        hk_lock(&hk_registry);
    }
    hk_unlock(&hk_registry);
    return trapped;
}

unsigned hk_idle_look(bool freed, uint64_t now) {
    static uint64_t next;     /* the purger; when to look again */
    static unsigned interval; /* the purger; up to then, in milliseconds */
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

/* What is left of a magazine lies behind as many slots as were emptied. */
HK_COLD void hk_idle_over(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (hk_load_relaxed(&thread->idle) == HK_ROBBED)
        for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
            const unsigned taken = hk_load_relaxed(&rest->emptied[cls]);
            hk_store_relaxed(&rest->emptied[cls], (uint16_t)0);
            if (taken != 0)
                hk_magazine_close_ranks(thread, cls, taken);
        }
    hk_store_relaxed(&thread->idle, (unsigned char)HK_AWAKE);
    if (thread->tc != &hk_tc)
        return; /* it has no thread */
    /* who wants to observe it says so first, and then sets the trap */
    hk_store_seq(&hk_tc, &thread->cache);
    if (hk_load_seq(&thread->plan) != 0)
        hk_store_seq(&hk_tc, &rest->trap);
}
