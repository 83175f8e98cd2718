#include "front/thread.h"

#include <pthread.h>

#include "backend/large.h"
#include "backend/meta.h"
#include "backend/region.h"
#include "config/config.h"

/* Our destructor asks to be called again in each round but the last, so that the destructors of
 * others find a working cache. */
enum { DESTRUCTOR_ROUNDS = 4 };

static void *null_slot[1]; /* what unused bins point at: empty, and with limit == top also full */

#define ALL_UNUSED                                                                                 \
    { [0 ... HK_KIND_COUNT - 1] = null_slot }
#define UNUSED_CACHE                                                                               \
    { .map = no_map, .top = ALL_UNUSED, .limit = ALL_UNUSED }
static _Atomic uint8_t no_map[1];
const hk_tcache_t hk_tcache_none = UNUSED_CACHE;
const hk_tcache_t hk_tcache_dead = UNUSED_CACHE;

_Thread_local _Atomic(hk_tcache_t *) hk_tc __attribute__((tls_model("initial-exec"))) =
    (hk_tcache_t *)&hk_tcache_none;

static hk_lock_t registry = HK_LOCK_INIT(HK_RANK_REGISTRY);
static bool initialised;     /* lock: registry */
static pthread_key_t key;    /* const once initialised */
static hk_thread_t *all;     /* lock: registry; every record but the shared one */
static hk_thread_t *orphans; /* lock: registry; last in, first out: its memory is the warmest */

static hk_lock_t shared_lock = HK_LOCK_INIT(HK_RANK_SHARED);
static hk_thread_t shared_record; /* lock: shared; untouched pages until a thread needs it */

static void set_up(hk_thread_t *thread) {
    thread->cache.map = hk_flat.bytes;
    thread->cache.mask = hk_flat.mask;
    thread->cache.thread = thread;
    for (unsigned kind = 0; kind < HK_KIND_COUNT; kind++)
        thread->cache.top[kind] = thread->cache.limit[kind] = null_slot;
    thread->budget = hk_config.tcache_kb * HK_KIB;
    hk_heap_init(&thread->heap);
}

static void thread_ends(void *record);

static void initialise_locked(void) {
    if (initialised)
        return;
    initialised = true;
    hk_map_init();
    shared_record.shared = true;
    set_up(&shared_record);
    pthread_key_create(&key, thread_ends);
}

/* A record for the calling thread: an orphan's, else a new one; NULL: out of memory. */
static hk_thread_t *obtain_record(void) {
    hk_lock(&registry);
    initialise_locked();
    hk_thread_t *thread = orphans;
    if (thread != NULL) {
        orphans = thread->orphan_next;
        hk_store_release(&thread->heap.orphan, false);
        hk_unlock(&registry);
        return thread;
    }
    hk_unlock(&registry);
    thread = hk_meta_alloc(sizeof *thread);
    if (thread == NULL)
        return NULL;
    set_up(thread);
    hk_lock(&registry);
    thread->all_next = all;
    all = thread;
    hk_unlock(&registry);
    return thread;
}

static void handle_forks(void);

static HK_COLD hk_thread_t *attach(void) {
    if (hk_load_relaxed(&hk_tc) == &hk_tcache_dead)
        return &shared_record;
    hk_thread_t *thread = obtain_record();
    if (thread == NULL)
        return &shared_record;
    thread->exit_rounds = 0;
    hk_store_relaxed(&hk_tc, &thread->cache);
    /* Both may allocate, which works by now. If the first fails the record is never left to
     * anybody: a leak of address space, not an error. */
    pthread_setspecific(key, thread);
    handle_forks();
    return thread;
}

hk_thread_t *hk_thread_enter(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL)) {
        thread = attach();
        if (thread->shared)
            hk_lock(&shared_lock);
    }
    if (HK_UNLIKELY(hk_load_relaxed(&thread->busy)))
        return NULL;
    hk_store_relaxed(&thread->busy, true);
    atomic_signal_fence(memory_order_seq_cst);
    return thread;
}

void hk_thread_leave(hk_thread_t *thread) {
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&thread->busy, false);
    if (HK_UNLIKELY(thread->shared))
        hk_unlock(&shared_lock);
}

void hk_thread_flush(hk_thread_t *thread) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        void ***top = &thread->cache.top[cls];
        void **slots = &thread->slots[hk_classes[cls].first_slot];
        if (**top == NULL)
            continue;
        hk_heap_give(&thread->heap, cls, slots + 1, (unsigned)(*top - slots));
        *top = slots;
    }
}

static void make_orphan_locked(hk_thread_t *thread) {
    hk_store_release(&thread->heap.orphan, true);
    thread->orphan_next = orphans;
    orphans = thread;
}

static void thread_ends(void *record) {
    hk_thread_t *thread = record;
    if (++thread->exit_rounds < DESTRUCTOR_ROUNDS && pthread_setspecific(key, thread) == 0)
        return;
    hk_store_relaxed(&thread->busy, true);
    hk_thread_flush(thread);
    hk_heap_collect(&thread->heap);
    hk_store_relaxed(&thread->busy, false);
    hk_store_relaxed(&hk_tc, (hk_tcache_t *)&hk_tcache_dead);
    hk_lock(&registry);
    make_orphan_locked(thread);
    hk_unlock(&registry);
}

/* ---- fork
 * ---------------------------------------------------------------------------------------- */

/* With every lock taken, in order, no half-done change exists anywhere. Handlers of others that run
 * between this one and the two below find the thread busy: what they allocate or free beyond the
 * hit path goes to the emergency heap. */
static void fork_prepare(void) {
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    if (own == NULL)
        own = attach();
    hk_lock_forking(true);
    hk_lock(&shared_lock);
    hk_lock(&registry);
    hk_heap_lock_all();
    hk_pool_lock();
    hk_large_lock();
    hk_region_lock();
    hk_meta_lock();
    hk_store_relaxed(&own->busy, true);
}

static void fork_release(void) {
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    hk_store_relaxed(&(own != NULL ? own : &shared_record)->busy, false);
    hk_meta_unlock();
    hk_region_unlock();
    hk_large_unlock();
    hk_pool_unlock();
    hk_heap_unlock_all();
    hk_unlock(&registry);
    hk_unlock(&shared_lock);
    hk_lock_forking(false);
}

/* The other threads do not exist in the child: their records become orphans. Their magazines stay
 * as they are until the next owner of the record uses them; a push or pop that the fork interrupted
 * lost at most the one block it was about. */
static void fork_child(void) {
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    for (hk_thread_t *thread = all; thread != NULL; thread = thread->all_next)
        if (thread != own && !hk_load_relaxed(&thread->heap.orphan)) {
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
