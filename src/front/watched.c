#include "front/watched.h"

#include "backend/pack.h"
#include "base/counters.h"
#include "front/boundary.h"
#include "front/observed.h"
#include "front/sampled.h"
#include "front/thread_own.h"
#include "observe/plan.h"

atomic_uint hk_watched_how;
static _Atomic(const hk_watcher_t *) watchers[HK_WATCH_PLACES];
static atomic_uint changes; /* atomic: any thread; changes of what bytes are counted down for */

HK_INLINE hk_thread_t *own_thread(void) { return hk_load_relaxed(&hk_tc)->thread; }
HK_INLINE bool samples_only(void) { return hk_watched() == HK_WATCHED_SAMPLES; }
HK_INLINE bool counts_down(void) { return hk_watched() - 1u < HK_WATCHED_ALL - 1u; }

/* Once all operations are told, they are as long as there is any watcher: samples lie anywhere
 * then. */
static unsigned how_now(void) {
    const bool untrapped = hk_plan_from_options() == 0;
    const bool alone = untrapped && hk_watched() != HK_WATCHED_ALL && !hk_sampling();
    const bool samples = alone && hk_profile_mean() >= HK_PROFILE_APART_FROM;
    const bool guards = untrapped && hk_option(guard_sample) >= HK_SAMPLE_FEW_FROM;
    unsigned how = guards ? HK_WATCHED_GUARDS : HK_WATCHED_NOT;
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) /* the profile's place comes first */
        if (hk_load_seq(&watchers[i]) != NULL)
            how = i == HK_WATCH_PROFILE && samples ? HK_WATCHED_SAMPLES : HK_WATCHED_ALL;
    return how;
}

/* Repeated if it has changed meanwhile: two threads may do this at the same time. */
bool hk_watched_apply(void) {
    hk_thread_t *own = hk_thread_enter_patiently();
    if (own == NULL)
        return false;
    do {
        hk_store_seq(&hk_watched_how, how_now());
        hk_classes_hide(counts_down());
        hk_add_seq(&changes, 1u);
    } while (hk_load_seq(&hk_watched_how) != how_now());
    hk_thread_leave(own);
    return true;
}

/* The watcher before stays if not all threads know that it goes: as long as samples may lie apart,
 * a watcher has to be told of them, and to count down to the next. */
bool hk_watch(hk_watch_place_t place, const hk_watcher_t *watcher) {
    const hk_watcher_t *before = hk_exchange_seq(&watchers[place], watcher);
    const bool told = hk_front_apply();
    if (!told && watcher == NULL)
        hk_store_seq(&watchers[place], before);
    return told;
}

/* The thread's countdown, begun anew where it was for something else. */
static void **countdown(hk_thread_t *thread) {
    const unsigned now = hk_load_relaxed(&changes);
    if (HK_UNLIKELY(thread->counts_since != now)) {
        thread->counts_since = now;
        thread->cache.watchers[HK_WATCH_PROFILE] = NULL;
    }
    return &thread->cache.watchers[HK_WATCH_PROFILE];
}

/* ---- telling ---- */

/* A signal handler that interrupted a watcher has forked: in the child that watcher is still at
 * work, and is told of the fork afterwards. */
static atomic_bool forked_late; /* atomic: the thread that forked, and its handlers */

/* Not while a watcher is at work on this thread. In a fork handler watchers get no `own`: in the
 * child that is still the parent's. */
HK_INLINE void tell(hk_thread_t *thread, void *p, const hk_told_t *told, bool given) {
    if (p == NULL || (thread != NULL && hk_load_relaxed(&thread->telling)))
        return;
    if (thread != NULL) {
        hk_store_relaxed(&thread->telling, true);
        countdown(thread);
    }
    atomic_signal_fence(memory_order_seq_cst);
    const bool has_own =
        thread != NULL && HK_LIKELY(!hk_load_relaxed(&hk_forking) || !hk_fork_is_mine());
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) {
        const hk_watcher_t *watcher = hk_load_acquire(&watchers[i]);
        if (watcher != NULL)
            (given ? watcher->given : watcher->taken)(has_own ? &thread->cache.watchers[i] : NULL,
                                                      p, told);
    }
    atomic_signal_fence(memory_order_seq_cst);
    if (thread != NULL)
        hk_store_relaxed(&thread->telling, false);
    if (HK_UNLIKELY(hk_load_relaxed(&forked_late)))
        hk_watched_forked();
}

/* Whether the thread has no other reason to come to the boundary: its magazines serve at once
 * then. */
HK_INLINE bool goes_by_magazines(const hk_thread_t *thread) {
    return thread != NULL && hk_observed(thread) == HK_MAGAZINES_WATCHED;
}

/* ---- samples, where they are all that anybody wants ---- */

/* Whether an allocation of n bytes is no sample, in which case its bytes are counted down. */
HK_INLINE bool passes(hk_thread_t *thread, size_t n) {
    return counts_down() && thread != NULL && hk_profile_passes(countdown(thread), n);
}

/* The sampled guard for an allocation that did not pass: among few sampled guards the profile's
 * place is their countdown, which begins anew; meanwhile it is HK_TAKING_SAMPLE. NULL: it is none,
 * as a thread's first allocation, which only starts the countdown. */
static void *guard(void **left, size_t n, size_t align, hk_by_t by) {
    const bool first = *left == NULL;
    *left = HK_TAKING_SAMPLE;
    void *p = !first && hk_sample_is_chosen(n) ? hk_sample_alloc(n, align, by) : NULL;
    *left = (void *)hk_sample_gap_bytes();
    return p;
}

/* Where only samples are told, a small block that lies among others is not: its free may be a
 * hit. */
static void tell_given(void *p, hk_told_t told) {
    if (!samples_only() || !hk_kind_is_class(hk_map_kind(p)))
        tell(own_thread(), p, &told, true);
}

/* For an allocation that did not pass: a sampled guard, or a small block that lies apart, for a
 * sample; NULL: neither, also where it would not be told. */
static void *take_apart(size_t n, size_t align, hk_by_t by) {
    hk_thread_t *thread = own_thread();
    if (hk_watched() == HK_WATCHED_GUARDS && thread != NULL)
        return guard(countdown(thread), n, align, by);
    if (!samples_only() || n > HK_MID_MAX || (thread != NULL && hk_load_relaxed(&thread->telling)))
        return NULL;
    thread = align <= HK_PACK_ALIGN ? hk_thread_enter() : NULL;
    if (thread == NULL)
        return NULL;
    void *p = hk_pack_alloc(hk_max(n, 1), hk_max(align, HK_GRAIN));
    hk_thread_leave(thread);
    return p;
}

/* ---- operations ---- */

static HK_NOINLINE void *malloc_told(size_t n, size_t align, hk_by_t by) {
    void *p = take_apart(n, align, by);
    if (p == NULL)
        p = hk_malloc_unwatched(n, align, by);
    tell_given(p, (hk_told_t){n, align, by, NULL});
    return p;
}

void *hk_watched_malloc(size_t n, size_t align, hk_by_t by) {
    hk_thread_t *thread = own_thread();
    if (align <= 8 && goes_by_magazines(thread)) {
        void *p = hk_observed_pop(thread, NULL, n);
        if (p != NULL) {
            tell(thread, p, &(hk_told_t){n, align, by, NULL}, true);
            return p;
        }
    }
    return passes(thread, n) ? hk_malloc_unwatched(n, align, by) : malloc_told(n, align, by);
}

void *hk_watched_calloc_large(size_t n) {
    const bool told = !passes(own_thread(), n);
    void *p = hk_calloc_large_unwatched(n);
    if (told)
        tell_given(p, (hk_told_t){n, 8, HK_BY_MALLOC, NULL});
    return p;
}

static void tell_taken(void *p, hk_told_t told) {
    if (hk_watched() == HK_WATCHED_ALL || hk_profile_may_know(p))
        tell(own_thread(), p, &told, false);
}

static HK_NOINLINE void free_told(void *p, hk_by_t by, size_t n) {
    tell_taken(p, (hk_told_t){n, 8, by, NULL});
    hk_free_unwatched(p, by, n);
}

void hk_watched_free(void *p, hk_by_t by, size_t n) {
    hk_thread_t *thread = own_thread();
    if (!goes_by_magazines(thread)) {
        free_told(p, by, n);
        return;
    }
    hk_told_t told = {n, 8, by, NULL}; /* read back from here: fewer registers to be saved */
    tell(thread, p, &told, false);
    if (HK_UNLIKELY(!hk_observed_push(thread, NULL, p)))
        hk_free_unwatched(p, told.by, told.n);
}

static void *move_apart(void *p, size_t n) {
    const bool ours = hk_map_kind(p) != HK_KIND_FOREIGN;
    void *q = ours ? take_apart(n, 8, HK_BY_MALLOC) : NULL;
    if (q == NULL)
        return hk_realloc_unwatched(p, n);
    memcpy(q, p, hk_min(hk_usable(p), n));
    hk_free_unwatched(p, HK_BY_MALLOC, HK_ANY_SIZE);
    return q;
}

void *hk_watched_realloc(void *p, size_t n) {
    hk_resized_t resized = {0};
    tell_taken(p, (hk_told_t){HK_ANY_SIZE, 8, HK_BY_MALLOC, &resized});
    const uint64_t faults = hk_counted_ever(faults); /* if there are more of them, p is no block */
    const bool told = !passes(own_thread(), n);
    void *q = told ? move_apart(p, n) : hk_realloc_unwatched(p, n);
    resized.again = q == NULL;
    if (q == NULL && hk_counted_ever(faults) == faults)
        tell_given(p, (hk_told_t){hk_usable(p), 8, HK_BY_MALLOC, &resized});
    if (q != NULL && told)
        tell_given(q, (hk_told_t){n, 8, HK_BY_MALLOC, &resized});
    return q;
}

/* ---- the ends of threads and processes ---- */

static void tell_end(hk_thread_t *thread, bool forked) {
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) {
        const hk_watcher_t *watcher = hk_load_acquire(&watchers[i]);
        void (*hears)(void **) = watcher == NULL ? NULL : forked ? watcher->forked : watcher->ended;
        if (hears != NULL)
            hears(&thread->cache.watchers[i]);
    }
}

void hk_watched_end(hk_thread_t *thread) { tell_end(thread, false); }

void hk_watched_forked(void) {
    hk_thread_t *own = own_thread();
    const bool late = own != NULL && hk_load_relaxed(&own->telling);
    if (late != hk_load_relaxed(&forked_late))
        hk_store_relaxed(&forked_late, late);
    for (hk_thread_t *thread = hk_threads_all; thread != NULL && !late; thread = thread->all_next) {
        if (hk_load_relaxed(&thread->telling)) /* or an idle child would copy a page for it */
            hk_store_relaxed(&thread->telling, false);
        if (thread->cache.watchers[HK_WATCH_PROFILE] == HK_TAKING_SAMPLE)
            thread->cache.watchers[HK_WATCH_PROFILE] = NULL;
        tell_end(thread, true);
    }
}
