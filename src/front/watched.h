/* The watched front: what the boundary does while a watcher (a heap profile, a recording) is told
 * of operations. An operation is done as ever, by the magazines, the guard or the backend, and
 * told:
 *
 *   malloc(n) ──────── as ever ──── given(p, n)
 *   free(p) ── taken(p) ── as ever                   (afterwards p may be another thread's)
 *   realloc(p, n) ── taken(p) ── as ever ── given(q, n), or p again where it failed
 *
 * For a watcher of all operations all threads go by their traps. For one of samples only, the table
 * of sizes is hidden: each malloc misses, which counts its bytes down, and goes to the magazine by
 * the hidden table; each free of a small block is a hit, except of a sample, which lies apart: in a
 * pack, whose kind's bin is always full.
 *
 * Sampled guards, where they are few and there are no watchers, are counted down in the same way.
 *
 * A watcher is not told of what it allocates or frees itself, nor of what a signal handler does
 * that interrupts it. */
#pragma once

#include "front/thread.h"
#include "guard/guard.h"
#include "profile/sample.h"

/* What the two halves of a realloc share. */
typedef struct {
    hk_profile_block_t was; /* what the profile's watcher knew of the block */
    bool again;             /* it has failed, and the block is told again as it was */
} hk_resized_t;

/* What is told of an operation. */
typedef struct {
    size_t n;     /* the bytes asked for; of a free the size it claims, or HK_ANY_SIZE */
    size_t align; /* of the block that is given */
    hk_by_t by;
    hk_resized_t *resized; /* of a half of a realloc; else NULL */
} hk_told_t;

/* `own` points to what the watcher keeps for the thread, NULL at first, as long as the thread's
 * record lives. It is NULL itself for a thread without a record, or in a fork handler. No lock of
 * the allocator is held; the watcher keeps errno. */
typedef struct {
    void (*given)(void **own, void *p, const hk_told_t *told);
    void (*taken)(void **own, void *p, const hk_told_t *told);
    void (*ended)(void **own);  /* the thread ends; called inside the boundary; may be NULL */
    void (*forked)(void **own); /* in a fork's child, of every record; may be NULL */
} hk_watcher_t;

/* A thread's place for the profile, while it takes a sampled guard that was counted down there. */
#define HK_TAKING_SAMPLE ((void *)INTPTR_MAX)

/* Which operations are told: none; none, but bytes are counted down for few sampled guards; samples
 * only; all. */
typedef enum {
    HK_WATCHED_NOT,
    HK_WATCHED_GUARDS,
    HK_WATCHED_SAMPLES,
    HK_WATCHED_ALL,
} hk_watched_t;
extern HK_HIDDEN atomic_uint hk_watched_how;
HK_INLINE hk_watched_t hk_watched(void) {
    return HK_FAST ? HK_WATCHED_NOT : (hk_watched_t)hk_load_relaxed(&hk_watched_how);
}

/* From now on `watcher` is told of the operations of all threads, in this place; NULL: no watcher.
 * Alone in the profile's place, with few samples, it is told only of what may be a sample or may
 * have been one (profile/sample.h), and `own` is its countdown. Operations under way may still be
 * told to the watcher before. Any thread, outside of signal handlers. False: a fork is under way,
 * and not all threads know: to be called again; until then the watcher before may still be told. */
bool hk_watch(hk_watch_place_t place, const hk_watcher_t *watcher);

/* Applies this after the options have changed, too. False: a fork is under way, and nothing was
 * done. */
bool hk_watched_apply(void);

/* The operations, for the entry points. */
void *hk_watched_malloc(size_t n, size_t align, hk_by_t by);
void *hk_watched_calloc_large(size_t n);
void hk_watched_free(void *p, hk_by_t by, size_t n);
void *hk_watched_realloc(void *p, size_t n);

/* The thread ends; the process is a fork's child, and holds the registry or has no other thread. */
void hk_watched_end(hk_thread_t *thread);
void hk_watched_forked(void);
