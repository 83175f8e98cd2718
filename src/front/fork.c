/* Fork: the child finds no lock taken and no change half done.
 *
 * A thread that forks holds every other thread outside the boundary. Then no thread is inside, so
 * no lock of the backend is taken and every structure is whole, and the fork holds no lock that
 * another thread could wait for. A thread that comes to the boundary meanwhile is served without
 * locks, by the emergency heap and by remote frees: so what it may hold (a stream, a lock of the
 * loader, one of the program's own), and what the C library takes after our handler, cannot close a
 * circle with our locks. (docs/concurrency.md argues it.) */
#include <pthread.h>

#include "backend/advise.h"
#include "backend/breath.h"
#include "backend/heap.h"
#include "backend/large.h"
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

/* Whether the calling thread is between the two halves of a fork and holds the others. A signal
 * handler that interrupted the allocator and forks holds none: a thread that it waited for might
 * wait for what the interrupted frame holds. POSIX lets the child of such a fork do little before
 * exec. */
static _Thread_local bool holds;

bool hk_fork_is_mine(void) { return holds; }

/* Orphans are left alone: they have no thread, and a thread that takes such a record sets its gate.
 * Writing it here would copy a page of the record. */
static bool is_other(const hk_thread_t *thread, const hk_thread_t *own) {
    return thread != own && !hk_load_relaxed(&thread->heap.orphan);
}

/* False: a thread is inside. `own`, NULL if there is none, may have been made just now, in a signal
 * handler. */
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

/* Forks under way on this thread: a signal handler may fork between the two halves of its thread's
 * fork. It finds all others held, and leaves them so; or only some of them, and then its child may
 * do as little as that of a handler which has interrupted the allocator. */
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
        hk_unlock(&hk_registry); /* a thread inside may want it */
        hk_lock_pause(tries);
        hk_lock(&hk_registry);
    }
    hk_store_relaxed(&hk_fork_waits, false);
    hk_lock(&hk_look_lock);
}

/* Comes last: until the locks are free, a signal handler that forks, or asks for the registry, must
 * find that this thread holds them. */
static void end(void) {
    if (depth == 1)
        holds = false;
    depth--;
}

/* Frees the large blocks that other threads have put aside during the fork: it may be long before
 * one of them frees anything else. */
static HK_COLD void free_late(void) {
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (own == NULL)
        return;
    hk_purger_note(hk_large_free_late());
    hk_thread_leave(own);
}

static void fork_parent(void) {
    const bool held = depth == 1 && hk_fork_is_mine();
    if (held) {
        hk_unlock(&hk_look_lock);
        release_locked(hk_load_relaxed(&hk_tc)->thread);
    }
    end();
    if (HK_UNLIKELY(hk_load_seq(&hk_large_aside)) && held)
        free_late();
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
        if (is_other(thread, own)) {
            hk_thread_orphan_locked(thread);
            hk_idle_forked();
        }
    }
    release_locked(own);
    hk_lock_forked(&hk_registry); /* other threads' forks may have slept on it */
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

/* Does what pthread_atfork() of the C library does. That one is linked into each library, into ours
 * at its very end, for which 64 KiB more would be mapped in each process. */
#ifdef __GLIBC__
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
/* The C library need not hear when ours is unloaded, as it never is (CMakeLists.txt); in a program
 * the compiler's symbol is taken. */
void *__dso_handle __attribute__((weak, visibility("hidden")));
#define HANDLE_FORKS(prepare, parent, child) __register_atfork(prepare, parent, child, __dso_handle)
#else
#define HANDLE_FORKS pthread_atfork
#endif

/* Not from a constructor: processes that hardly allocate, and do not fork, are spared it. */
void hk_fork_handle(void) {
    static atomic_bool done; /* atomic: any thread; a race may register them twice, for they nest */
    if (!hk_load_acquire(&done) && HANDLE_FORKS(fork_prepare, fork_parent, fork_child) == 0)
        hk_store_release(&done, true);
}
