#include "front/watched.h"

#include <errno.h>

#include "front/boundary.h"
#include "front/guarded.h"
#include "front/observed.h"
#include "profile/sample.h"

atomic_uint hk_watched_how;
static _Atomic(const hk_watcher_t *) watchers[HK_WATCH_PLACES];

void hk_watch(hk_watch_place_t place, const hk_watcher_t *watcher) {
    unsigned how = HK_WATCHED_NOT;
    hk_store_seq(&watchers[place], watcher);
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) /* the profile's comes first */
        if (hk_load_seq(&watchers[i]) != NULL)
            how = i == HK_WATCH_PROFILE ? HK_WATCHED_SAMPLES : HK_WATCHED_ALL;
    hk_store_seq(&hk_watched_how, how);
    hk_front_apply();
}

/* ---- telling ---- */

static hk_thread_rest_t *own_rest(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    return thread != NULL ? hk_load_relaxed(&thread->rest) : NULL;
}

/* False: a watcher of this thread's is at work. */
static bool begin(hk_thread_rest_t *rest) {
    if (rest == NULL)
        return true;
    if (hk_load_relaxed(&rest->telling))
        return false;
    hk_store_relaxed(&rest->telling, true);
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

static void end(hk_thread_rest_t *rest) {
    atomic_signal_fence(memory_order_seq_cst);
    if (rest != NULL)
        hk_store_relaxed(&rest->telling, false);
}

HK_INLINE void tell(void *p, hk_told_t told, bool given) {
    hk_thread_rest_t *rest = own_rest();
    if (p == NULL || !begin(rest))
        return;
    int *error = &errno, saved = *error;
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) {
        const hk_watcher_t *watcher = hk_load_acquire(&watchers[i]);
        if (watcher != NULL)
            (given ? watcher->given : watcher->taken)(rest != NULL ? &rest->watchers[i] : NULL, p,
                                                      &told);
    }
    *error = saved;
    end(rest);
}

/* ---- what is no sample: where samples are all that anybody wants, nearly every operation ---- */

/* An allocation of n bytes is none, which is counted. */
HK_INLINE bool passes(const hk_thread_t *thread, size_t n) {
    if (hk_load_relaxed(&hk_watched_how) != HK_WATCHED_SAMPLES || thread == NULL)
        return false;
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    return rest != NULL && !hk_load_relaxed(&rest->telling) &&
           hk_profile_passes(&rest->watchers[HK_WATCH_PROFILE], n);
}

HK_INLINE bool is_unknown(const void *p) {
    return hk_load_relaxed(&hk_watched_how) == HK_WATCHED_SAMPLES && !hk_profile_may_know(p);
}

/* Nobody else wants to see the thread's operations. */
HK_INLINE bool goes_by_magazines(const hk_thread_t *thread) {
    return hk_observed(thread) == HK_MAGAZINES_OBSERVED && !hk_guarded() && !hk_sampling();
}

/* ---- operations ---- */

static HK_NOINLINE void *malloc_told(size_t n, size_t align, hk_by_t by) {
    void *p = hk_malloc_unwatched(n, align, by);
    tell(p, (hk_told_t){n, align, by, false}, true);
    return p;
}

void *hk_watched_malloc(size_t n, size_t align, hk_by_t by) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    void *p = NULL;
    if (HK_UNLIKELY(!passes(thread, n)))
        return malloc_told(n, align, by);
    if (HK_LIKELY(align <= 8 && goes_by_magazines(thread)))
        p = hk_observed_pop(thread, HK_MAGAZINES_OBSERVED, n);
    return HK_LIKELY(p != NULL) ? p : hk_malloc_unwatched(n, align, by);
}

void *hk_watched_calloc_large(size_t n) {
    if (passes(hk_load_relaxed(&hk_tc)->thread, n))
        return hk_calloc_large_unwatched(n);
    void *p = hk_calloc_large_unwatched(n);
    tell(p, (hk_told_t){n, 8, HK_BY_MALLOC, false}, true);
    return p;
}

static HK_NOINLINE void free_told(void *p, hk_by_t by, size_t n) {
    tell(p, (hk_told_t){n, 8, by, false}, false);
    hk_free_unwatched(p, by, n);
}

void hk_watched_free(void *p, hk_by_t by, size_t n) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(!is_unknown(p)))
        free_told(p, by, n);
    else if (HK_UNLIKELY(thread == NULL || !goes_by_magazines(thread) ||
                         !hk_observed_push(thread, HK_MAGAZINES_OBSERVED, p)))
        hk_free_unwatched(p, by, n);
}

void *hk_watched_realloc(void *p, size_t n) {
    tell(p, (hk_told_t){HK_ANY_SIZE, 8, HK_BY_MALLOC, true}, false);
    void *q = hk_realloc_unwatched(p, n);
    if (q != NULL)
        tell(q, (hk_told_t){n, 8, HK_BY_MALLOC, true}, true);
    else
        tell(p, (hk_told_t){hk_usable(p), 8, HK_BY_MALLOC, true}, true);
    return q;
}

/* ---- the ends of threads and processes ---- */

void hk_watched_end(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    for (unsigned i = 0; rest != NULL && i < HK_WATCH_PLACES; i++) {
        const hk_watcher_t *watcher = hk_load_acquire(&watchers[i]);
        if (watcher != NULL && watcher->ended != NULL)
            watcher->ended(&rest->watchers[i]);
    }
}

void hk_watched_forked(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (rest == NULL)
        return;
    hk_store_relaxed(&rest->telling, false);
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) {
        const hk_watcher_t *watcher = hk_load_acquire(&watchers[i]);
        if (watcher != NULL && watcher->forked != NULL)
            watcher->forked(&rest->watchers[i]);
    }
}
