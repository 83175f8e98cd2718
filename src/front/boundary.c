#include "front/boundary.h"

#include <errno.h>

#include "backend/large.h"
#include "backend/limit.h"
#include "backend/pack.h"
#include "backend/purge.h"
#include "backend/region.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"
#include "front/alone.h"
#include "front/crowd.h"
#include "front/emergency.h"
#include "front/guarded.h"
#include "front/magazine.h"
#include "front/observed.h"
#include "front/sampled.h"
#include "front/thread.h"
#include "front/watched.h"
#include "guard/fence.h"
#include "guard/freed.h"
#include "policy/purger.h"
#include "stats/sections.h"

/* ---- free ---- */

/* The C library's own, for pointers that are its own. Absent in a static or foreign libc. */
void __libc_free(void *p) __attribute__((weak));

static HK_NOINLINE void free_large(hk_thread_t *thread, void *p, unsigned kind) {
    hk_purger_note(HK_TIMED_VALUE(large_free, hk_large_free(&thread->heap, p, kind)));
}

/* Frees what is no block of the backend: no lock is needed. */
static HK_NOINLINE void free_odd(void *p, unsigned kind) {
    if (kind == HK_KIND_EMERGENCY)
        hk_emergency_free(p);
    else if (kind == HK_KIND_FENCED)
        hk_fence_free(p, HK_BY_MALLOC, HK_ANY_SIZE);
    else if (kind != HK_KIND_FOREIGN)
        hk_fatal(kind == HK_KIND_FREE ? HK_DOUBLE_FREE : HK_INVALID_FREE, p);
    else if (__libc_free == NULL)
        hk_fatal(HK_INVALID_POINTER, p);
    else
        __libc_free(p);
}

/* Frees without taking a lock: a small block becomes a remote free, a large one is put aside. */
static HK_COLD void free_without_locks(void *p, unsigned kind) {
    if (hk_kind_is_class(kind))
        hk_heap_give_remote(kind, p);
    else
        hk_large_put_aside(p, kind);
}

static void free_observed(hk_thread_t *thread, unsigned plan, void *p) {
    if ((plan | HK_PLAN_METRICS) != HK_MAGAZINES_COUNTED ||
        !hk_observed_push(thread, hk_counts_at(thread, plan), p))
        HK_TIMED(free_slow, hk_observed_free(thread, p));
}

/* Without a flat map each free comes to the boundary; a magazine with room takes the block as a hit
 * would, without entering: by the cache that the thread goes by, for its trap must be sprung. */
static bool push_without_map(hk_tcache_t *tc, void *p) {
    unsigned kind = hk_map_kind(p);
    return hk_kind_is_class(kind) && hk_hit_push_kind(tc, kind, p);
}

HK_INLINE void free_unguarded(void *p) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    hk_thread_t *thread = tc->thread;
    unsigned plan = thread != NULL ? hk_observed(thread) : 0;
    if (HK_UNLIKELY(plan != 0))
        free_observed(thread, plan, p);
    else if (hk_map_has_flat() || thread == NULL || !push_without_map(tc, p))
        HK_TIMED(free_slow, hk_free_long(p));
}

static HK_NOINLINE void free_by_shelf(void *p) {
    if (HK_UNLIKELY(!hk_crowd_push(p)))
        hk_delete_slow(p, HK_BY_MALLOC, HK_ANY_SIZE, 1);
}

void hk_free_slow(void *p, hk_tcache_t *tc) {
    if (hk_counted_push(tc, p))
        return;
    hk_quarantine_t *q = hk_load_acquire(&tc->guarded);
    if (q != NULL)
        hk_guarded_free_alone(p, q);
    else if (hk_load_relaxed(&hk_alone) == HK_ALONE_CROWD)
        free_by_shelf(p);
    else
        hk_delete_slow(p, HK_BY_MALLOC, HK_ANY_SIZE, 1);
}

void hk_free_unwatched(void *p, hk_by_t by, size_t n) {
    if (HK_UNLIKELY(hk_guarded()))
        hk_guarded_delete(p, by, n);
    else
        free_unguarded(p);
}

/* NULL first: a thread's end frees it a dozen times. */
HK_NOINLINE void hk_delete_slow(void *p, hk_by_t by, size_t n, size_t align) {
    if (p == NULL)
        return;
    if (HK_UNLIKELY(align != 1 && hk_guarded()))
        hk_guard_check_alignment(p, align);
    if (HK_UNLIKELY(hk_watched()))
        hk_watched_free(p, by, n);
    else
        hk_free_unwatched(p, by, n);
}

HK_NOINLINE void hk_free_long(void *p) {
    const unsigned kind = hk_map_kind(p);
    const bool small = hk_kind_is_class(kind);
    if (HK_UNLIKELY(!small && !hk_large_is(kind))) {
        free_odd(p, kind);
        return;
    }
    hk_thread_t *thread = small && hk_thread_frees_for_once() ? NULL : hk_thread_enter_to_free();
    if (HK_UNLIKELY(thread == NULL)) {
        free_without_locks(p, kind);
        return;
    }
    if (HK_UNLIKELY(!small))
        free_large(thread, p, kind);
    else if (HK_UNLIKELY(hk_observed(thread) != 0))
        hk_observed_give(thread, kind, p);
    else
        hk_magazine_give_or_flush(thread, kind, p);
    if (HK_UNLIKELY(hk_load_relaxed(&hk_large_aside)))
        hk_purger_note(hk_large_free_late());
    hk_purger_go_on();
    hk_thread_leave(thread);
}

/* ---- malloc ---- */

static HK_NOINLINE void *take_large(hk_thread_t *thread, size_t n, size_t align, size_t *dirty) {
    return HK_TIMED_VALUE(large_alloc, hk_large_alloc(&thread->heap, n, align, dirty));
}

static void *take(hk_thread_t *thread, unsigned cls, size_t n, size_t align, size_t *dirty) {
    if (HK_UNLIKELY(cls == 0))
        return take_large(thread, n, align, dirty);
    thread->heap.wanted = n;
    return HK_UNLIKELY(hk_observed(thread) != 0) ? hk_observed_take(thread, cls)
                                                 : hk_magazine_take_or_refill(thread, cls);
}

/* Gives all free memory back to the system, as far as this thread can reach it; small blocks in
 * quarantine only with `what_waits`. Returns the bytes. The thread makes way for a fork, and
 * *thread may be NULL after it. */
static HK_COLD size_t reclaim(hk_thread_t **thread, bool what_waits) {
    hk_thread_flush(*thread, what_waits);
    if (what_waits || !hk_guarded()) /* else what an orphan has is mostly its quarantine */
        hk_threads_cool_orphans(true);
    hk_crowds_clear();
    hk_heap_collect(&(*thread)->heap);
    hk_large_free_late();
    size_t bytes = 0;
    if (hk_guarded()) {
        bytes = hk_singles().kept;
        hk_freed_trim();
    }
    return bytes + hk_purge_all(hk_thread_makes_way, thread);
}

/* The alignment of all blocks of the class, for which hk_size_for_alignment() may have chosen its
 * size. */
static HK_COLD size_t alignment_of(unsigned cls) {
    const size_t size = cls != 0 ? hk_classes[cls].size : 1;
    return size & -size;
}

static void *take_packed(unsigned cls, size_t n, size_t align) {
    const size_t most = hk_max(hk_max(align, alignment_of(cls)), HK_GRAIN);
    return most <= HK_PACK_ALIGN ? hk_pack_alloc(hk_max(n, 1), most) : NULL;
}

/* The last try holds the purge lock, so that no purge keeps free memory out of reach. Where no slab
 * can be had, packs may still have room, in slices that a few of their blocks keep from going back.
 * Once everything had to go back to find that, packs are asked first. */
static HK_COLD void *reclaim_and_take(hk_thread_t **thread, unsigned cls, size_t n, size_t align,
                                      size_t *dirty) {
    static atomic_bool packs_first; /* atomic: any thread */
    /* A request that could never be met says nothing of how much is left for others. */
    const bool never = hk_limit_excludes(hk_minus(n, HK_MAP_BYTES), 0);
    void *p = hk_bounds_look(never ? 0 : n) ? take(*thread, cls, n, align, dirty) : NULL;
    if (p != NULL || never || hk_limit_excludes(n, 0))
        return p;
    const bool packs = cls != 0 && !hk_guarded() && hk_region_is_bounded();
    if (packs && hk_load_relaxed(&packs_first) && (p = take_packed(cls, n, align)) != NULL)
        return p;
    /* A large request does not empty the quarantines of small blocks, which are little. */
    reclaim(thread, cls != 0);
    if (*thread == NULL)
        return NULL;
    hk_lock(&hk_purge_lock);
    p = take(*thread, cls, n, align, dirty);
    if (p == NULL && packs)
        p = take_packed(cls, n, align);
    hk_unlock(&hk_purge_lock);
    if (packs)
        hk_store_relaxed(&packs_first, p != NULL && hk_map_kind(p) != cls);
    return p;
}

static void *try_to_allocate(unsigned cls, size_t n, size_t align, size_t *dirty) {
    hk_thread_t *thread = hk_thread_enter();
    *dirty = n;
    if (HK_UNLIKELY(thread == NULL)) {
        void *p = hk_emergency_alloc(n, hk_max(align, alignment_of(cls)));
        /* Where the system refuses that, the thread waits for the other thread's fork to end. */
        if (p != NULL || (thread = hk_thread_enter_after_fork()) == NULL) {
            *dirty = 0;
            return p;
        }
    }
    void *p = take(thread, cls, n, align, dirty);
    if (HK_UNLIKELY(p == NULL))
        p = reclaim_and_take(&thread, cls, n, align, dirty);
    else if (HK_UNLIKELY(hk_load_relaxed(&hk_region_look_is_due)))
        hk_bounds_look(0);
    if (HK_UNLIKELY(thread == NULL))
        return NULL;
    const bool ended = thread->shared;
    hk_thread_leave(thread);
    if (!ended)
        hk_purger_start();
    return p;
}

_Atomic(hk_refusal_t *) hk_refusal;

/* Calls the refusal hook: true if it asks for another try. Not from the hook itself, nor from a
 * signal handler that interrupted the allocator. */
static HK_COLD bool somebody_frees(size_t n, unsigned tries) {
    hk_refusal_t *hear = hk_load_acquire(&hk_refusal);
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (hear == NULL || thread == NULL || thread->refusals != HK_REFUSALS_HEARD ||
        hk_load_relaxed(&thread->gate) == HK_INSIDE)
        return false;
    thread->refusals = HK_REFUSALS_UNHEARD;
    atomic_signal_fence(memory_order_seq_cst);
    const bool again = hear(n, tries);
    atomic_signal_fence(memory_order_seq_cst);
    thread->refusals = HK_REFUSALS_HEARD;
    return again;
}

HK_COLD void *hk_refused(void) {
    const hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (thread == NULL || thread->refusals != HK_REFUSALS_NONE)
        hk_count(refused, 1);
    errno = ENOMEM;
    return NULL;
}

static HK_COLD void *refused(size_t n) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    /* Such a program cannot start, nor say why itself. */
    if (n <= HK_UNIT && hk_counted_ever(region_maps) == 0 && hk_counted_ever(guard_fences) == 0 &&
        hk_limit() == 0 && !atomic_flag_test_and_set(&said))
        hk_say("hakmem: warning: no memory: the system refuses this process its first mapping; "
               "is RLIMIT_AS (ulimit -v) or RLIMIT_DATA (ulimit -d) too low?");
    return hk_refused();
}

/* A block of n bytes, aligned to `align`, of class cls or, where that is 0, a large one; *dirty as
 * of hk_large_alloc(). */
static void *allocate(unsigned cls, size_t n, size_t align, size_t *dirty) {
    if (HK_UNLIKELY(n > HK_MOST_BYTES || align > HK_MOST_BYTES))
        return hk_refused();
    for (unsigned tries = 0;; tries++) {
        void *p = try_to_allocate(cls, n, align, dirty);
        if (HK_LIKELY(p != NULL))
            return p;
        if (!somebody_frees(n, tries))
            return refused(n);
    }
}

/* `up`: n, rounded up for its alignment. A sample is of what was asked for. */
HK_INLINE void *malloc_observed(hk_thread_t *thread, unsigned plan, size_t up, hk_told_t asked) {
    void *p = hk_sampling() ? hk_sampled_malloc(thread, asked.n, asked.align, asked.by) : NULL;
    if (p == NULL && (plan | HK_PLAN_METRICS) == HK_MAGAZINES_COUNTED)
        p = hk_observed_pop(thread, hk_counts_at(thread, plan), up);
    if (HK_UNLIKELY(p == NULL))
        HK_TIMED(malloc_slow, p = hk_observed_malloc(thread, up));
    return p;
}

/* A function of its own, so that guarded operations need not save the registers it uses. */
static HK_NOINLINE void *unguarded(size_t n, size_t align, hk_by_t by) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const unsigned plan = thread != NULL ? hk_observed(thread) : 0;
    const size_t up = align <= 8 ? n : hk_size_for_alignment(n, align);
    if (HK_UNLIKELY(up > HK_MID_MAX))
        return HK_TIMED_VALUE(malloc_slow, hk_take_block(0, n, hk_max(align, 16)));
    if (HK_UNLIKELY(plan != 0))
        return malloc_observed(thread, plan, up, (hk_told_t){n, align, by, NULL});
    return HK_TIMED_VALUE(malloc_slow, hk_malloc_long(up));
}

static HK_NOINLINE void *malloc_by_shelf(size_t n) {
    void *p = hk_crowd_pop(n);
    return HK_LIKELY(p != NULL) ? p : hk_aligned_slow(n, 8, HK_BY_MALLOC);
}

void *hk_malloc_slow(size_t n, hk_tcache_t *tc) {
    void *p = hk_counted_pop(tc, n);
    if (p != NULL)
        return p;
    hk_quarantine_t *q = hk_load_acquire(&tc->guarded);
    if (q != NULL)
        return hk_guarded_malloc_alone(n, q);
    return hk_load_relaxed(&hk_alone) == HK_ALONE_CROWD ? malloc_by_shelf(n)
                                                        : hk_aligned_slow(n, 8, HK_BY_MALLOC);
}

HK_NOINLINE void *hk_malloc_long(size_t n) {
    return hk_take_block(n <= HK_MID_MAX ? hk_class_of(n) : 0, n, 16);
}

void *hk_take_block(unsigned cls, size_t n, size_t align) {
    size_t dirty;
    return allocate(cls, n, align, &dirty);
}

/* Clears up to the end of a page: usable bytes behind that may have no memory, and would get some.
 * Under a guard it clears all: realloc() may hand those bytes out, and they shall show nothing. */
void *hk_take_clear(size_t n, size_t align) {
    size_t dirty;
    void *p = allocate(0, n, align, &dirty);
    if (p != NULL && dirty != 0) {
        const size_t pages = hk_align_up((uintptr_t)p + n, hk_os_page_size()) - (uintptr_t)p;
        const size_t end = hk_guarded() ? SIZE_MAX : pages;
        hk_purge_clear(p, dirty < n ? dirty : hk_min(end, hk_usable(p)));
    }
    return p;
}

void *hk_calloc_large_unwatched(size_t n) {
    if (HK_UNLIKELY(hk_guarded()))
        return hk_guarded_malloc(n, HK_BY_MALLOC); /* which reads as zero */
    return HK_TIMED_VALUE(malloc_slow, hk_take_clear(n, 16));
}

void *hk_calloc_large(size_t n) {
    return HK_UNLIKELY(hk_watched()) ? hk_watched_calloc_large(n) : hk_calloc_large_unwatched(n);
}

void *hk_malloc_unwatched(size_t n, size_t align, hk_by_t by) {
    if (HK_UNLIKELY(hk_guarded()))
        return align <= 8 ? hk_guarded_malloc(n, by) : hk_guarded_aligned(n, align, by);
    return unguarded(n, align, by);
}

void *hk_aligned_slow(size_t n, size_t align, unsigned by) {
    return HK_UNLIKELY(hk_watched()) ? hk_watched_malloc(n, align, by)
                                     : hk_malloc_unwatched(n, align, by);
}

/* ---- the whole ---- */

bool hk_trim(void) {
    hk_thread_t *thread = hk_thread_enter();
    if (thread == NULL)
        return false;
    size_t bytes = reclaim(&thread, true);
    if (thread != NULL)
        hk_thread_leave(thread);
    return bytes != 0;
}

void hk_front_start(void) {
    if (hk_option(guard) != 0)
        hk_guarded_start();
    if (hk_plan_from_options() != 0 || hk_option(guard_sample) != 0 ||
        hk_option(sections_sample) != 0)
        hk_front_apply();
    /* A thread without a record is prewarmed at its first allocation. */
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (thread == NULL)
        return;
    hk_prewarm(thread);
    hk_thread_leave(thread);
}
