/* The watched front: what the boundary does while somebody wants to hear of operations (a heap
 * profile, a recording). An operation is done as ever, by the magazines, the guard or the backend, and told:
 *
 *   malloc(n) ──────── as ever ──── given(p, n)
 *   free(p) ── taken(p) ── as ever                   (afterwards p may be another thread's)
 *   realloc(p, n) ── taken(p) ── as ever ── given(q, n), or p again where it failed
 *
 * Who wants all of them has all threads go by their trap caches. For who wants samples only the table of sizes is
 * hidden: each malloc misses, which counts its bytes down and goes to the magazine by the hidden one, and each free of a
 * small block is a hit but of a sample, which lies apart: in a pack, whose kind's bin is always full.
 *
 * Sampled guards, where they are few and all that anybody wants, are counted down in the same way.
 *
 * What a watcher itself allocates or frees, and what a signal handler does that interrupts it, it does not
 * hear of. */
#pragma once

#include "front/thread.h"
#include "guard/guard.h"
#include "profile/sample.h"

/* Of a realloc what its two halves share. */
typedef struct {
    hk_profile_block_t was; /* what the profile's watcher knew of the block */
    bool again;             /* it has failed, and the block is given as it was */
} hk_resized_t;

/* What was done. */
typedef struct {
    size_t n;     /* the bytes asked for; of a free what it says, or HK_ANY_SIZE */
    size_t align; /* of what is given */
    hk_by_t by;
    hk_resized_t *resized; /* half of a realloc; or NULL */
} hk_told_t;

/* A watcher's own for the thread, NULL at first: the thread's to use, as long as its record lives. The thread may
 * have none, as one in a fork handler: `own` is NULL then. No lock of the allocator is held; errno is kept by the watcher. */
typedef struct {
    void (*given)(void **own, void *p, const hk_told_t *told);
    void (*taken)(void **own, void *p, const hk_told_t *told);
    void (*ended)(void **own);  /* the thread ends; inside the boundary; may be NULL */
    void (*forked)(void **own); /* in a fork's child, of every record; may be NULL */
} hk_watcher_t;

/* Whether anybody hears of operations, and if it is of samples only; or of none, but there are few sampled guards. */
typedef enum {
    HK_WATCHED_NOT,
    HK_WATCHED_GUARDS,
    HK_WATCHED_SAMPLES,
    HK_WATCHED_ALL,
} hk_watched_t;
extern atomic_uint hk_watched_how;
HK_INLINE hk_watched_t hk_watched(void) {
    return HK_FAST ? HK_WATCHED_NOT : (hk_watched_t)hk_load_relaxed(&hk_watched_how);
}

/* From now on `watcher` hears of the operations of all threads, in this place; NULL: nobody. Alone in the profile's
 * place, where samples are few, it hears only of what may be a sample or may have been one (profile/sample.h), of which
 * `own` is the countdown. Operations that are under way may still be told to the one before. Any thread, outside of signal handlers.
 * False: a fork is under way, and not all threads have been told: to be said again; until then who heard before may go on to. */
bool hk_watch(hk_watch_place_t place, const hk_watcher_t *watcher);

/* After the options have changed as well. False: a fork is under way, and nobody has been told. */
bool hk_watched_apply(void);

/* What the entry points do. */
void *hk_watched_malloc(size_t n, size_t align, hk_by_t by);
void *hk_watched_calloc_large(size_t n);
void hk_watched_free(void *p, hk_by_t by, size_t n);
void *hk_watched_realloc(void *p, size_t n);

/* The thread ends; the process is a fork's child, which has the registry or no other thread. */
void hk_watched_end(hk_thread_t *thread);
void hk_watched_forked(void);
