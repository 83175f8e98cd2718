/* Fork.
 *
 * A fork holds every other thread outside the boundary. Nobody is inside, so no lock of the backend
 * is taken and no change half done: the child finds everything whole, and the fork holds no lock
 * that anybody could wait for. A thread that comes to the boundary meanwhile is served without
 * locks, by the emergency heap and by remote frees: what it may hold (a stream, a lock of the
 * loader, one of the program's own), and what the C library takes after our handler, cannot close a
 * circle with us. (docs/concurrency.md argues it.) */
#include <pthread.h>

#include "backend/advise.h"
#include "backend/breath.h"
#include "backend/heap.h"
#include "base/report.h"
#include "base/worker.h"
#include "config/config.h"
#include "front/guarded.h"
#include "front/observed.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "policy/look.h"
#include "policy/purger.h"
#include "profile/table.h"
#include "stats/sections.h"

atomic_bool hk_forking, hk_fork_waits;

/* Whether the calling thread is between the two halves of a fork and holds the others. It holds nobody where its signal
 * handler has interrupted the allocator: whom we waited for might wait for what the interrupted frame holds. POSIX lets
 * the child do little before exec. */
static _Thread_local bool holds;

bool hk_fork_is_mine(void) { return holds; }

/* An orphan has no thread, and whoever takes its record sets the gate: to write there would copy a page of it. */
static bool is_other(const hk_thread_t *thread, const hk_thread_t *own) {
    return thread != own && !hk_load_relaxed(&thread->heap.orphan);
}

/* False: somebody is inside. `own` may have got its record just now, in a signal handler. */
static bool hold_others_locked(const hk_thread_t *own) {
    bool all_held = true;
    for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next) {
        unsigned outside_now = HK_OUTSIDE;
        if (is_other(thread, own) &&
            !hk_cas_acquire(&thread->gate, &outside_now, (unsigned)HK_HELD) &&
            outside_now != HK_HELD)
            all_held = false;
    }
    return all_held;
}

static void release_locked(hk_thread_t *own) {
    for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next)
        if (is_other(thread, own))
            hk_gate_leave(thread);
    hk_store_seq(&hk_forking, false);
    hk_unlock(&hk_registry);
    hk_unlock(&hk_shared_lock);
}

/* A signal handler may fork while its own thread is between the two halves: it finds all held, and leaves it so; or half of
 * them, and its child may do as little as that of one which has interrupted the allocator. */
static _Thread_local unsigned depth;

static void fork_prepare(void) {
    if (depth++ != 0)
        return;
    holds = !hk_thread_is_inside();
    if (!holds)
        return;
    hk_lock(&hk_shared_lock);
    hk_store_seq(&hk_forking, true);
    hk_lock(&hk_registry);
    for (unsigned tries = 0; !hold_others_locked(hk_load_relaxed(&hk_tc)->thread); tries++) {
        hk_store_relaxed(&hk_fork_waits, true);
        hk_unlock(&hk_registry); /* which whoever is inside may want */
        hk_lock_pause(tries);
        hk_lock(&hk_registry);
    }
    hk_store_relaxed(&hk_fork_waits, false);
    hk_lock(&hk_look_lock);
}

/* Last: who forks, or asks for the registry, in a signal handler before that must not wait for what this one holds. */
static void end(void) {
    if (depth == 1)
        holds = false;
    depth--;
}

static void fork_parent(void) {
    if (depth == 1 && hk_fork_is_mine()) {
        hk_unlock(&hk_look_lock);
        release_locked(hk_load_relaxed(&hk_tc)->thread);
    }
    end();
}

/* The other threads do not exist in the child: their records become orphans. Their magazines stay
 * as they are for the record's next thread; a push or pop that the fork interrupted loses at most
 * the one block it was about. */
static void leave_others_behind(void) {
    hk_guarded_others_left();
    hk_purger_forked();
    hk_config_forked();
    hk_writing_forked();
    hk_store_relaxed(&hk_workers, 0u);
    hk_heap_forked();
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    hk_profile_forked();
    hk_observed_forget(&hk_shared_record);
    hk_sections_forget();
    hk_watched_forked();
    for (hk_thread_t *thread = hk_threads_all; thread != NULL; thread = thread->all_next) {
        hk_observed_forget(thread);
        hk_guarded_forked(thread, thread == own);
        if (is_other(thread, own))
            hk_thread_orphan_locked(thread);
    }
    release_locked(own);
    hk_lock_forked(&hk_registry); /* other forks may have waited */
    hk_lock_forked(&hk_shared_lock);
}

static void fork_child(void) {
    hk_counters_forked();
    hk_stderr_forked();
    hk_breath_forked();
    hk_advice_forked();
    hk_heap_counters_forked();
    if (depth == 1 && hk_fork_is_mine())
        leave_others_behind();
    end();
}

/* What the C library's pthread_atfork does, which is a piece of code in each library, and of all places at the
 * end of ours: for its sake 64 KiB more would be mapped in each process. */
#ifdef __GLIBC__
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
/* That a library is unloaded ours need not know (CMakeLists.txt); in a program this is the compiler's. */
void *__dso_handle __attribute__((weak, visibility("hidden")));
#define HANDLE_FORKS(prepare, parent, child) __register_atfork(prepare, parent, child, __dso_handle)
#else
#define HANDLE_FORKS pthread_atfork
#endif

/* Not from a constructor: most processes that only start never allocate beyond a page or fork. */
void hk_fork_handle(void) {
    static atomic_bool done; /* atomic: any thread; two may do it at once, for handlers nest */
    if (!hk_load_acquire(&done) && HANDLE_FORKS(fork_prepare, fork_parent, fork_child) == 0)
        hk_store_release(&done, true);
}
