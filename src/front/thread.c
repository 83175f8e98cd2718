#include "front/thread.h"

#include <pthread.h>
#include <string.h>

#include "backend/large.h"
#include "backend/meta.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "config/config.h"
#include "front/magazine.h"
#include "front/observed.h"
#include "front/prewarm.h"
#include "policy/purger.h"

/* Our destructor asks to be called again in each round but the last, so that the destructors of
 * others find a working cache. (The thread sanitizer's own state is gone in the last one.) */
#ifdef __SANITIZE_THREAD__
enum { DESTRUCTOR_ROUNDS = 2 };
#else
enum { DESTRUCTOR_ROUNDS = 4 };
#endif

/* So many orphans may keep an empty slab for each class, for the next thread's sake. */
enum { WARM_ORPHANS = 8 };

#define ALL_UNUSED                                                                                 \
    { [0 ... HK_KIND_COUNT - 1] = hk_unused_bin }
#define UNUSED_CACHE                                                                               \
    { .map = no_map, .top = ALL_UNUSED, .limit = ALL_UNUSED }
static _Atomic uint8_t no_map[1];
static const hk_tcache_t no_cache = UNUSED_CACHE;

_Thread_local _Atomic(hk_tcache_t *) hk_tc __attribute__((tls_model("initial-exec"))) =
    (hk_tcache_t *)&no_cache;

static hk_lock_t registry = HK_LOCK_INIT(HK_RANK_REGISTRY);
static bool initialised;     /* lock: registry */
static pthread_key_t key;    /* const once initialised */
static hk_thread_t *all;     /* lock: registry; every record but the shared one */
static hk_thread_t *orphans; /* lock: registry; last in, first out: its memory is the warmest */
static unsigned served;      /* lock: registry; records that a thread has */

static hk_lock_t shared_lock = HK_LOCK_INIT(HK_RANK_SHARED);
static hk_thread_t shared_record; /* lock: shared; untouched pages until a thread needs it */

/* A thread that has no record. */
static _Thread_local struct {
    bool ended;         /* and will have none any more */
    atomic_bool inside; /* the boundary: attaching, or at work on the shared record */
} outside;

/* Under the registry lock, so that no heap appears while a fork holds them all. */
static void set_up_locked(hk_thread_t *thread) {
    thread->cache.map = hk_flat.bytes;
    thread->cache.mask = hk_flat.mask;
    thread->cache.thread = thread;
    memcpy(&thread->trap, &no_cache, sizeof no_cache);
    thread->trap.thread = thread;
    hk_magazines_reset(thread);
    hk_heap_init(&thread->heap);
    hk_thread_plan_locked(thread);
}

static void thread_ends(void *record);

static void initialise_locked(void) {
    if (initialised)
        return;
    initialised = true;
    hk_map_init();
    shared_record.shared = true;
    set_up_locked(&shared_record);
    pthread_key_create(&key, thread_ends);
}

/* A record for the calling thread: an orphan's, else a new one; NULL: out of memory. */
static hk_thread_t *obtain_record(void) {
    hk_lock(&registry);
    initialise_locked();
    hk_thread_t *thread = orphans;
    if (thread != NULL) {
        orphans = thread->orphan_next;
        hk_heap_set_orphan(&thread->heap, false);
    } else if ((thread = hk_meta_alloc(sizeof *thread)) != NULL) {
        set_up_locked(thread);
        thread->all_next = all;
        all = thread;
    }
    served += thread != NULL;
    hk_unlock(&registry);
    return thread;
}

static void handle_forks(void);

/* Gives the thread a record; NULL: out of memory. */
static hk_thread_t *attach(void) {
    hk_thread_t *thread = obtain_record();
    if (thread == NULL)
        return NULL;
    thread->exit_rounds = 0;
    if (!HK_FAST)
        hk_sections_keep_in(&thread->sections);
    hk_store_relaxed(&thread->busy, true); /* for a fork meanwhile */
    hk_prewarm(thread);
    hk_store_relaxed(&thread->busy, false);
    hk_store_relaxed(&hk_tc, &thread->cache);
    hk_lock(&registry);
    thread->tc = &hk_tc;
    hk_store_relaxed(&thread->plan, 0u); /* a plan is new to each thread */
    hk_thread_plan_locked(thread);
    hk_unlock(&registry);
    /* Both may allocate, which works by now. If the first fails the record is never left to
     * anybody: a leak of address space, not an error. */
    pthread_setspecific(key, thread);
    handle_forks();
    return thread;
}

static HK_COLD hk_thread_t *enter_outside(void) {
    if (hk_load_relaxed(&outside.inside))
        return NULL;
    hk_store_relaxed(&outside.inside, true);
    atomic_signal_fence(memory_order_seq_cst);
    hk_thread_t *thread = outside.ended ? NULL : attach();
    if (thread == NULL) {
        hk_lock(&shared_lock);
        return &shared_record;
    }
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&outside.inside, false);
    return thread;
}

hk_thread_t *hk_thread_enter(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL)) {
        thread = enter_outside();
        if (thread == NULL || thread->shared)
            return thread;
    }
    if (HK_UNLIKELY(hk_load_relaxed(&thread->busy)))
        return NULL;
    hk_store_relaxed(&thread->busy, true);
    atomic_signal_fence(memory_order_seq_cst);
    return thread;
}

void hk_thread_leave(hk_thread_t *thread) {
    atomic_signal_fence(memory_order_seq_cst);
    if (HK_UNLIKELY(thread->shared)) {
        hk_unlock(&shared_lock);
        hk_store_relaxed(&outside.inside, false);
        return;
    }
    /* release: a fork's child that sees it false sees the magazines as they are then */
    hk_store_release(&thread->busy, false);
}

void hk_thread_flush(hk_thread_t *thread) {
    if (!HK_FAST)
        hk_observed_flush(thread);
    hk_magazines_flush(thread);
}

static void make_orphan_locked(hk_thread_t *thread) {
    thread->tc = NULL;
    hk_heap_set_orphan(&thread->heap, true);
    thread->orphan_next = orphans;
    orphans = thread;
    served--;
}

/* From the flush on no handler finds a cache: what it needs comes from the emergency heap, until
 * the record is an orphan's and the shared one serves. */
static void thread_ends(void *record) {
    hk_thread_t *thread = record;
    if (++thread->exit_rounds < DESTRUCTOR_ROUNDS && pthread_setspecific(key, thread) == 0)
        return;
    hk_store_relaxed(&thread->busy, true);
    hk_thread_flush(thread);
    if (hk_heap_orphans() >= WARM_ORPHANS)
        hk_heap_collect(&thread->heap);
    hk_magazines_reset(thread);
    outside.ended = true;
    hk_store_relaxed(&outside.inside, true);
    hk_lock(&registry);
    hk_store_relaxed(&hk_tc, (hk_tcache_t *)&no_cache);
    if (!HK_FAST)
        hk_sections_keep_in(NULL);
    hk_store_relaxed(&thread->busy, false);
    make_orphan_locked(thread);
    bool last = served == 0;
    hk_unlock(&registry);
    hk_store_relaxed(&outside.inside, false);
    if (last)
        hk_purger_stop();
}

/* ---- all threads ---- */

/* What marks the calling thread as inside the boundary, other than by entering it: then handlers of
 * its own do not go for the locks that it is about to take. */
static atomic_bool *own_mark(void) {
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    return own != NULL ? &own->busy : &outside.inside;
}

void hk_thread_plan_locked(hk_thread_t *thread) {
    if (HK_FAST)
        return;
    unsigned plan = hk_plan_from_options();
    if (plan != (hk_load_relaxed(&thread->plan) & ~(unsigned)HK_PLAN_NEW))
        hk_store_relaxed(&thread->plan, plan | HK_PLAN_NEW);
    if (thread->tc != NULL)
        hk_store_relaxed(thread->tc, plan != 0 ? &thread->trap : &thread->cache);
}

static void visit_all(hk_thread_visitor_t *visit, void *argument) {
    hk_lock(&registry);
    if (initialised)
        visit(&shared_record, argument);
    for (hk_thread_t *thread = all; thread != NULL; thread = thread->all_next)
        visit(thread, argument);
    hk_unlock(&registry);
}

bool hk_threads_visit(hk_thread_visitor_t *visit, void *argument) {
    atomic_bool *mark = own_mark();
    if (hk_load_relaxed(mark))
        return false;
    hk_store_relaxed(mark, true);
    atomic_signal_fence(memory_order_seq_cst);
    visit_all(visit, argument);
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(mark, false);
    return true;
}

static void add_held(hk_thread_t *thread, void *blocks) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        ((size_t *)blocks)[cls] += hk_magazine_count(thread, cls);
        if (!HK_FAST)
            ((size_t *)blocks)[cls] += hk_observed_count(thread, cls);
    }
}

void hk_threads_held(size_t blocks[HK_CLASS_COUNT]) {
    memset(blocks, 0, HK_CLASS_COUNT * sizeof *blocks);
    visit_all(add_held, blocks);
}

static void add_sections(hk_thread_t *thread, void *sum) {
    hk_sections_sum_add(sum, &thread->sections);
}

bool hk_threads_sections(hk_sections_sum_t *sum) {
    memset(sum, 0, sizeof *sum);
    if (HK_FAST)
        return true;
    hk_sections_sum_begin(sum);
    return sum->overhead == 0 || hk_threads_visit(add_sections, sum);
}

/* ---- fork ---- */

/* With every lock taken, in order, no half-done change exists anywhere but in magazines. Until they
 * are released the forking thread counts as inside the boundary: what the fork handlers of others
 * allocate or free goes to the emergency heap. */
static void fork_prepare(void) {
    hk_store_relaxed(own_mark(), true);
    hk_lock_forking(true);
    hk_config_lock();
    hk_lock(&shared_lock);
    hk_lock(&registry);
    hk_purge_lock();
    hk_heap_lock_all();
    hk_pool_lock();
    hk_large_lock();
    hk_region_lock();
    hk_meta_lock();
}

static void fork_release(void) {
    hk_meta_unlock();
    hk_region_unlock();
    hk_large_unlock();
    hk_pool_unlock();
    hk_heap_unlock_all();
    hk_purge_unlock();
    hk_unlock(&registry);
    hk_unlock(&shared_lock);
    hk_config_unlock();
    hk_lock_forking(false);
    hk_store_relaxed(own_mark(), false);
}

/* The other threads do not exist in the child: their records become orphans. Their magazines stay
 * as they are for the record's next thread; a push or pop that the fork interrupted loses at most
 * the one block it was about. Those of a thread inside the boundary are dropped: they may list
 * blocks that it had already given back. */
static void fork_child(void) {
    hk_purger_forked();
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    if (!HK_FAST) {
        hk_observed_forget(&shared_record, false);
        hk_sections_forget_shared();
    }
    for (hk_thread_t *thread = all; thread != NULL; thread = thread->all_next) {
        bool mine = thread == own || hk_load_relaxed(&thread->heap.orphan);
        bool dropped = !mine && hk_load_acquire(&thread->busy);
        if (!HK_FAST) {
            hk_observed_forget(thread, dropped);
            hk_sections_forget(&thread->sections);
        }
        if (mine)
            continue;
        if (dropped)
            hk_magazines_reset(thread);
        hk_store_relaxed(&thread->busy, false);
        make_orphan_locked(thread);
    }
    fork_release();
}

/* Not from a constructor: most processes that only start never allocate beyond a page or fork. */
static void handle_forks(void) {
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&done))
        pthread_atfork(fork_prepare, fork_release, fork_child);
}
