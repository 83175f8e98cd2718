#include "front/watched.h"

#include <errno.h>

#include "front/boundary.h"
#include "front/observed.h"

atomic_bool hk_watched_on;
static _Atomic(const hk_watcher_t *) watchers[HK_WATCH_PLACES];

void hk_watch(hk_watch_place_t place, const hk_watcher_t *watcher) {
    bool any = false;
    hk_store_seq(&watchers[place], watcher);
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++)
        any |= hk_load_seq(&watchers[i]) != NULL;
    hk_store_seq(&hk_watched_on, any);
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

static void tell(void *p, const hk_told_t *told, bool given) {
    hk_thread_rest_t *rest = own_rest();
    if (p == NULL || !begin(rest))
        return;
    const int saved = errno;
    for (unsigned i = 0; i < HK_WATCH_PLACES; i++) {
        const hk_watcher_t *watcher = hk_load_acquire(&watchers[i]);
        if (watcher != NULL)
            (given ? watcher->given : watcher->taken)(rest != NULL ? &rest->watchers[i] : NULL, p,
                                                      told);
    }
    errno = saved;
    end(rest);
}

/* ---- operations ---- */

void *hk_watched_malloc(size_t n, size_t align, hk_by_t by) {
    void *p = hk_malloc_unwatched(n, align, by);
    tell(p, &(hk_told_t){n, align, by, false}, true);
    return p;
}

void *hk_watched_calloc_large(size_t n) {
    void *p = hk_calloc_large_unwatched(n);
    tell(p, &(hk_told_t){n, 8, HK_BY_MALLOC, false}, true);
    return p;
}

void hk_watched_free(void *p, hk_by_t by, size_t n) {
    tell(p, &(hk_told_t){n, 8, by, false}, false);
    hk_free_unwatched(p, by, n);
}

void *hk_watched_realloc(void *p, size_t n) {
    tell(p, &(hk_told_t){HK_ANY_SIZE, 8, HK_BY_MALLOC, true}, false);
    void *q = hk_realloc_unwatched(p, n);
    if (q != NULL)
        tell(q, &(hk_told_t){n, 8, HK_BY_MALLOC, true}, true);
    else
        tell(p, &(hk_told_t){hk_usable(p), 8, HK_BY_MALLOC, true}, true);
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
