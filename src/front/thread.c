#include "front/thread_own.h"

#include <errno.h>
#include <pthread.h>

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "front/alone.h"
#include "front/crowd.h"
#include "front/guarded.h"
#include "front/magazine.h"
#include "front/observed.h"
#include "front/operators.h"
#include "front/watched.h"
#include "policy/purger.h"

/* Our destructor asks to be called again once, so that the destructors of others find a working
 * cache. Destructors that take more rounds are served by the shared record: each round costs every
 * thread half a thousand instructions. */
enum { DESTRUCTOR_ROUNDS = 2 };

/* At most FEW_ORPHANS orphans keep an empty slab for each class, for the next thread's sake. Where
 * threads come and go orphans are *warm*, however many there are: they keep their magazines' blocks
 * as well, up to WARM_BYTES each and ALL_WARM_BYTES together. */
enum { FEW_ORPHANS = 8 };
#define WARM_BYTES (256 * HK_KIB)
#define ALL_WARM_BYTES (8 * WARM_BYTES)
/* The latter under a guard, where every record keeps its quarantine too, whether threads come and
 * go or not. */
#define ALL_GUARDED_BYTES (4 * ALL_WARM_BYTES)

#define ALL_UNUSED                                                                                 \
    { [0 ... HK_KIND_COUNT - 1] = hk_unused_bin }
static _Atomic uint8_t no_map[1];
static const hk_tcache_t no_cache = {.map = no_map, .top = ALL_UNUSED, .limit = ALL_UNUSED};

_Thread_local _Atomic(hk_tcache_t *) hk_tc __attribute__((tls_model("initial-exec"))) =
    (hk_tcache_t *)&no_cache;

hk_lock_t hk_registry = HK_LOCK_INIT(HK_RANK_REGISTRY);
hk_thread_t *hk_threads_all;
static pthread_key_t key;    /* const once initialised */
static bool has_key;         /* const once set: the program may have taken all there are */
static hk_thread_t *orphans; /* lock: registry; last in, first out: its memory is the warmest */
static atomic_uint ending;   /* atomic: threads that have begun to end and are not orphans yet */
static unsigned unnoticed;   /* lock: registry; threads whose end will not be noticed */
static _Atomic size_t warm_bytes; /* atomic: what orphans, and threads about to be, keep warm */

hk_lock_t hk_shared_lock = HK_LOCK_INIT(HK_RANK_SHARED);
hk_thread_t hk_shared_record; /* untouched pages until a thread needs it */

/* The state of a thread that has no record. */
static _Thread_local struct {
    bool ended;         /* its record is left, and it gets none any more */
    uint8_t frees;      /* blocks it freed before it had a record, up to a few */
    atomic_bool inside; /* inside the boundary: attaching, or at work on the shared record */
} outside;

/* More than FEW would send the first frees of threads with work of their own the slow way. */
HK_COLD bool hk_frees_first(void) {
    enum { FEW = 2 };
    return !outside.ended && outside.frees < FEW && ++outside.frees != 0;
}

bool hk_thread_is_inside(void) {
    const hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    return own != NULL ? hk_load_relaxed(&own->gate) == HK_INSIDE
                       : hk_load_relaxed(&outside.inside) || hk_is_purger;
}

/* Under the registry lock, so that no heap appears while a fork holds all gates. */
static void set_up_locked(hk_thread_t *thread) {
    thread->cache.map = hk_flat.bytes;
    const uintptr_t mask = hk_load_relaxed(&hk_flat.mask);
    hk_store_relaxed(&thread->cache.mask, mask);
    hk_store_relaxed(&thread->cache.mask_derived, hk_operators_are_ours() ? mask : 0);
    thread->cache.thread = thread;
    hk_magazines_reset(thread);
    hk_heap_init(&thread->heap);
    hk_thread_plan_locked(thread);
}

/* Two threads may race to create it; the loser's copy is leaked, at most once per record. */
hk_thread_rest_t *hk_thread_rest(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_acquire(&thread->rest), *seen = NULL;
    if (rest != NULL)
        return rest;
    rest = hk_meta_alloc(sizeof *rest);
    if (rest == NULL)
        return NULL;
    memcpy(&rest->trap, &no_cache, sizeof no_cache);
    rest->trap.thread = thread;
    if (!hk_cas_seq(&thread->rest, &seen, rest))
        rest = seen;
    return rest;
}

/* Counts threads with a record: `more` is 1 or -1. The shared heaps are ready before
 * hk_threads_are_many() says so (release). */
static void serve_locked(int more) {
    static bool many; /* lock: registry */
    const unsigned now = hk_load_relaxed(&hk_heap_threads) + (unsigned)more;
    if (HK_UNLIKELY(many != (now > HK_MANY_THREADS)))
        hk_crowds_gather_locked(many = !many);
    const bool before = hk_threads_are_many();
    hk_store_release(&hk_heap_threads, now);
    if (HK_UNLIKELY(before != hk_threads_are_many()))
        hk_alone_look_locked();
    hk_store_relaxed(&hk_purger_on_foot, now <= 1);
}

static void thread_ends(void *record);

static void initialise_locked(void) {
    if (hk_shared_record.shared)
        return;
    hk_shared_record.shared = true;
    hk_map_init();
    hk_region_init();
    set_up_locked(&hk_shared_record);
    has_key = pthread_key_create(&key, thread_ends) == 0;
}

/* The record's magazines no longer count towards what orphans may keep warm. */
static void cool(hk_thread_t *thread) {
    hk_sub_relaxed(&warm_bytes, thread->warm);
    thread->warm = 0;
}

/* A guarded thread needs the rest of its record. Without memory for that the record waits for
 * another thread, and NULL is returned. */
static HK_COLD hk_thread_t *able_to_guard_locked(hk_thread_t *thread) {
    if (hk_thread_rest(thread) != NULL)
        return thread;
    hk_heap_set_orphan(&thread->heap, true);
    thread->orphan_next = orphans;
    orphans = thread;
    return NULL;
}

/* A record for the calling thread, its gate inside: an orphan's, else a new one. NULL: out of
 * memory, or another thread is forking. */
static hk_thread_t *obtain_record(void) {
    if (!hk_lock_unless(&hk_registry, &hk_forking))
        return NULL;
    initialise_locked();
    hk_thread_t *thread = orphans;
    if (thread != NULL) {
        orphans = thread->orphan_next;
        hk_heap_set_orphan(&thread->heap, false);
        cool(thread);
    } else if ((thread = hk_meta_alloc(sizeof *thread)) != NULL) {
        set_up_locked(thread);
        thread->all_next = hk_threads_all;
        hk_threads_all = thread;
    }
    if (HK_UNLIKELY(hk_guarded()) && thread != NULL)
        thread = able_to_guard_locked(thread);
    if (thread != NULL) {
        /* a fork waits until the thread is attached */
        hk_store_relaxed(&thread->gate, (unsigned)HK_INSIDE);
        serve_locked(1);
    }
    hk_unlock(&hk_registry);
    return thread;
}

/* No destructor will tell of the thread's end, at which its hk_tc is unmapped: so no thread may
 * write to that any more, and options that are switched on later do not reach this thread. Where
 * another thread's fork lasts, for which this one must not wait for ever, hk_is_there_locked() has
 * to find out. */
static HK_COLD void let_go(void) {
    hk_thread_t *thread = hk_thread_enter_patiently();
    if (thread == NULL)
        return;
    hk_lock(&hk_registry);
    thread->tc = NULL;
    unnoticed++;
    hk_unlock(&hk_registry);
    hk_gate_leave(thread);
}

/* Gives the calling thread a record; NULL: as obtain_record(). */
static hk_thread_t *attach(void) {
    hk_thread_t *thread = obtain_record();
    if (thread == NULL)
        return NULL;
    thread->exit_rounds = 0;
    thread->refusals = HK_REFUSALS_HEARD;
    hk_prewarm(thread);
    hk_store_relaxed(&hk_tc, &thread->cache);
    hk_lock(&hk_registry);
    thread->tc = &hk_tc;
    hk_store_relaxed(&thread->plan, 0u); /* so that the plan counts as new to this thread */
    hk_thread_plan_locked(thread);
    hk_unlock(&hk_registry);
    hk_gate_leave(thread);
    /* Both may allocate, which works by now. Where no key can be set the record is never left to
     * another thread: a leak of address space, not an error, and it must not change the errno of a
     * free. */
    const int saved = errno;
    if (!has_key || pthread_setspecific(key, thread) != 0)
        let_go();
    hk_fork_handle();
    errno = saved;
    return thread;
}

static HK_COLD hk_thread_t *enter_outside(bool frees) {
    if (hk_load_relaxed(&outside.inside) || hk_is_purger || hk_fork_is_mine())
        return NULL;
    hk_store_relaxed(&outside.inside, true);
    atomic_signal_fence(memory_order_seq_cst);
    const bool over = outside.ended || (frees && hk_os_thread_ends());
    hk_thread_t *thread = over ? NULL : attach();
    if (thread == NULL && hk_lock_unless(&hk_shared_lock, &hk_forking))
        return &hk_shared_record;
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&outside.inside, false);
    return thread;
}

atomic_bool hk_held_for_good;

/* A thread that the purger holds waits until it is let go, which may have happened since the caller
 * looked. NULL: another thread forks, the caller is a signal handler that has interrupted its
 * thread inside, or it waits in vain: in a child that was made past the fork handlers (_Fork) while
 * the parent's purger held it. Such a child waits only once. */
static HK_COLD hk_thread_t *enter_late(hk_thread_t *thread) {
    enum { TRIES = 200 };
    const unsigned most = hk_load_relaxed(&hk_held_for_good) ? 1 : TRIES;
    for (unsigned tries = 0;
         tries < most && hk_load_relaxed(&thread->gate) != HK_INSIDE && !hk_load_seq(&hk_forking);
         tries++) {
        if (hk_gate_enter(thread))
            return thread;
        hk_lock_pause(tries);
    }
    if (hk_load_relaxed(&thread->gate) == HK_HELD && !hk_load_seq(&hk_forking))
        hk_store_relaxed(&hk_held_for_good, true);
    return NULL;
}

HK_INLINE hk_thread_t *enter(bool frees) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL)) {
        thread = enter_outside(frees);
        if (thread == NULL || thread->shared)
            return thread;
    }
    return HK_LIKELY(hk_gate_enter(thread)) ? thread : enter_late(thread);
}

hk_thread_t *hk_thread_enter(void) { return enter(false); }
hk_thread_t *hk_thread_enter_to_free(void) { return enter(true); }

void hk_thread_leave(hk_thread_t *thread) {
    if (HK_LIKELY(!thread->shared)) {
        hk_gate_leave(thread);
        return;
    }
    hk_unlock(&hk_shared_lock);
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&outside.inside, false);
}

hk_thread_t *hk_thread_served(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL) && (thread = hk_thread_enter()) != NULL) {
        hk_thread_leave(thread);
        thread = hk_load_relaxed(&hk_tc)->thread;
    }
    return thread;
}

hk_thread_t *hk_thread_enter_patiently(void) {
    if (hk_fork_is_mine())
        return NULL; /* this thread's fork holds what its callers are about to take */
    for (unsigned tries = 0;; tries += hk_lock_pause(tries)) {
        hk_thread_t *thread = hk_thread_enter();
        /* a handler that interrupted its thread inside must not wait for a fork: the fork waits for
         * that thread */
        if (thread != NULL || tries >= HK_MOST_TRIES || hk_thread_is_inside())
            return thread;
    }
}

bool hk_thread_makes_way(void *of) {
    hk_thread_t **thread = of;
    if (HK_UNLIKELY(hk_load_relaxed(&hk_fork_waits)) && *thread != NULL) {
        hk_thread_leave(*thread);
        *thread = hk_thread_enter_patiently();
    }
    return *thread != NULL;
}

HK_COLD hk_thread_t *hk_thread_enter_after_fork(void) {
    static atomic_bool in_vain; /* atomic: any thread; set until a thread can enter */
    hk_thread_t *thread =
        hk_load_relaxed(&in_vain) ? hk_thread_enter() : hk_thread_enter_patiently();
    if (thread != NULL)
        hk_store_relaxed(&in_vain, false);
    else if (hk_load_seq(&hk_forking) && !hk_thread_is_inside() && !hk_fork_is_mine())
        hk_store_relaxed(&in_vain, true);
    return thread;
}

void hk_thread_flush(hk_thread_t *thread, bool what_waits) {
    hk_observed_flush(thread);
    if (what_waits)
        hk_guarded_flush(thread);
    hk_magazines_flush(thread);
}

void hk_thread_finish(void) {
    const bool looks = hk_load_relaxed(&hk_purger_on_foot) && !hk_guarded();
    hk_thread_t *thread =
        looks && hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (thread == NULL)
        return;
    hk_magazines_flush(thread);
    hk_thread_leave(thread);
}

void hk_thread_orphan_locked(hk_thread_t *thread) {
    unnoticed -= thread->tc == NULL; /* by let_go(), in a parent of this process */
    thread->tc = NULL;
    if (hk_load_relaxed(&thread->idle) != HK_AWAKE)
        hk_idle_over(thread); /* for the next thread that gets the record */
    hk_heap_set_orphan(&thread->heap, true);
    thread->orphan_next = orphans;
    orphans = thread;
    serve_locked(-1);
}

/* Adds so many bytes to what the ending thread's record keeps warm; false: all orphans would keep
 * too much. */
static bool leaves(hk_thread_t *thread, size_t bytes) {
    const size_t most = hk_guarded() ? ALL_GUARDED_BYTES : ALL_WARM_BYTES;
    if (hk_add_relaxed(&warm_bytes, bytes) + bytes > most) {
        hk_sub_relaxed(&warm_bytes, bytes);
        return false;
    }
    thread->warm += bytes;
    return true;
}

/* The ending thread gives back what its magazines hold, unless the record stays warm. Others may
 * end meanwhile. */
static void leave_behind(hk_thread_t *thread) {
    const unsigned before = hk_add_seq(&ending, 1u);
    if (hk_watched())
        hk_watched_end(thread);
    hk_observed_flush(thread);
    if (HK_UNLIKELY(hk_guarded()) && !leaves(thread, hk_guarded_end(thread)))
        hk_guarded_flush(thread);
    if (!hk_thread_comes_and_goes(thread))
        thread->served++;
    hk_stash_clear_own(&thread->heap.stash);
    const size_t held = hk_thread_comes_and_goes(thread) ? hk_magazines_bytes(thread) : SIZE_MAX;
    if (held <= WARM_BYTES && leaves(thread, held)) {
        hk_crowd_leave(thread);
        return;
    }
    hk_magazines_flush(thread);
    if (before + hk_load_relaxed(&hk_heap_orphans) >=
        FEW_ORPHANS + hk_load_relaxed(&hk_crowds_idle))
        hk_heap_collect(&thread->heap);
    hk_magazines_reset(thread);
}

/* From when hk_tc is reset, signal handlers find no cache: the emergency heap serves them until the
 * record is an orphan's, then the shared record. The destructor's argument is not trusted: a C
 * library in another namespace (dlmopen) numbers its keys for itself, and keeps their values in the
 * same places. */
static void thread_ends(void *unused) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    (void)unused;
    if (thread == NULL)
        return;
    if (++thread->exit_rounds < DESTRUCTOR_ROUNDS && pthread_setspecific(key, thread) == 0)
        return;
    for (unsigned tries = 0; !hk_gate_enter(thread); tries++)
        hk_lock_pause(tries); /* another thread forks */
    leave_behind(thread);
    outside.ended = true;
    hk_store_relaxed(&outside.inside, true);
    hk_lock(&hk_registry);
    hk_store_relaxed(&hk_tc, (hk_tcache_t *)&no_cache);
    hk_thread_orphan_locked(thread);
    hk_crowds_clear_of_few(hk_load_relaxed(&hk_heap_threads));
    hk_add_seq(&ending, -1u);
    hk_gate_leave(thread);
    bool last = hk_load_relaxed(&hk_heap_threads) <= unnoticed;
    hk_unlock(&hk_registry);
    hk_store_relaxed(&outside.inside, false);
    if (last)
        hk_purger_stop();
}

/* No thread takes an orphan's record while the registry is locked. Quarantines stay with orphans;
 * so do layers, where the thread ended without a destructor or only the parent of a fork has it. */
static void flush_orphan_locked(hk_thread_t *thread) {
    hk_thread_flush(thread, true);
    hk_magazines_reset(thread);
    cool(thread);
}

/* A record that an ending thread has left holds blocks only while it counts as warm. The registry's
 * lock keeps a fork out, for the purger has no record to enter. */
bool hk_threads_cool_orphans(bool all) {
    bool any = false;
    if (hk_fork_is_mine())
        return false; /* this thread's fork holds the registry: a later call does it */
    hk_lock(&hk_registry);
    for (hk_thread_t *thread = orphans; thread != NULL && (all || !any);
         thread = thread->orphan_next) {
        if (!all && (thread->warm != 0 || hk_magazines_bytes(thread) == 0))
            continue;
        flush_orphan_locked(thread);
        any = true;
    }
    if (!any)
        hk_crowds_clear_of_few(hk_load_relaxed(&hk_heap_threads));
    hk_unlock(&hk_registry);
    return any;
}

/* ---- all threads ---- */

/* A thread that has left by the system's call alone, past all destructors, has an hk_tc that is
 * unmapped, or belongs to another thread by now. */
bool hk_is_there_locked(const hk_thread_t *thread) {
    if (thread->tc == NULL || thread->tc == &hk_tc)
        return thread->tc != NULL;
    if (!hk_os_readable(thread->tc))
        return false;
    const hk_tcache_t *tc = hk_load_relaxed(thread->tc);
    const hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    return tc == &thread->cache || (rest != NULL && tc == &rest->trap);
}

void hk_thread_plan_locked(hk_thread_t *thread) {
    unsigned plan = hk_plan_from_options();
    if (plan == 0 && hk_sampling() && hk_watched() != HK_WATCHED_GUARDS)
        plan = HK_MAGAZINES_OBSERVED;
    else if (plan == 0 && hk_watched() == HK_WATCHED_ALL)
        plan = HK_MAGAZINES_WATCHED;
    if (plan != (hk_load_relaxed(&thread->plan) & ~(unsigned)HK_PLAN_NEW))
        hk_store_seq(&thread->plan, plan | HK_PLAN_NEW);
    hk_alone_look_locked();
    hk_alone_tell(thread); /* a thread without a way to say that it ends (let_go()) sees this too */
    if (thread->tc == NULL)
        return;
    if (!hk_is_there_locked(thread)) {
        hk_thread_orphan_locked(thread);
        hk_crowds_clear_of_few(hk_load_relaxed(&hk_heap_threads));
        return;
    }
    /* Without memory for a trap only operations that come to the boundary anyway are observed. */
    hk_thread_rest_t *rest = plan != 0 ? hk_thread_rest(thread) : NULL;
    if (rest != NULL)
        hk_guarded_set_up_locked(thread);
    /* seq: hk_idle_over() stores it as well, and then looks at the plan */
    hk_store_seq(thread->tc, rest != NULL ? &rest->trap : &thread->cache);
}
