/* The guarded front: what the boundary does when every operation is checked. All threads go by their trap
 * caches then, so that each operation comes here.
 *
 *   malloc(n) ── what has waited in the quarantine; else the magazine, refilled in random order ── hk_block_hand_out
 *   free(p) ──── hk_block_take_back ── quarantine: what chance drives out has waited; too much of that: magazine
 *
 * Blocks above 32 KiB, and of no bytes, are fenced. */
#pragma once

#include "front/thread.h"
#include "guard/guard.h"
#include "guard/sample.h"

/* Guards from now on. Called once, when the process starts. */
void hk_guarded_start(void);

/* Operations are guarded, or those of observed threads counted, by the commonest plan, or there are many threads, and that is all:
 * none are sampled, and nobody hears of them. */
typedef enum { HK_ALONE_CROWD = -2, HK_ALONE_COUNTED, HK_ALONE_NOT, HK_ALONE_GUARDED } hk_alone_t;
extern _Atomic signed char hk_alone; /* atomic: any thread; a hk_alone_t */

/* The one or the other may have changed. */
void hk_alone_look(void);

/* What the entry points do; the first two are the shortest ways, the first of HK_ALONE_GUARDED. */
void *hk_guarded_malloc_alone(size_t n);
void hk_guarded_free(void *p);
void *hk_guarded_malloc(size_t n, hk_by_t by);
void *hk_guarded_aligned(size_t n, size_t align, hk_by_t by);
void hk_guarded_delete(void *p, hk_by_t by, size_t n);
void *hk_guarded_realloc(void *p, size_t n);
size_t hk_guarded_usable(const void *p);

/* The thread's record gets what guarding needs. Under the registry's lock. */
void hk_guarded_set_up_locked(hk_thread_t *thread);

/* These blocks have come from slabs, and go to the thread's magazine. */
void hk_guarded_refilled(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n);

/* What the thread has in quarantine goes to its heap, having been looked at. The thread is entered. */
void hk_guarded_flush(hk_thread_t *thread);

/* The thread ends: the same, but it all stays where it is, for the next thread that has the record; returns its bytes. */
size_t hk_guarded_end(hk_thread_t *thread);

/* The process ends: hk_guarded_flush() of the calling thread, and what else can be looked at. */
void hk_guarded_finish(void);

/* In a fork's child, before anything else is done about it: whether the process had other threads. What is guarded
 * is so outside the boundary too, where a fork keeps nobody. */
void hk_guarded_others_left(void);

/* The same, of each record: its order is another one from now on, and whatever its thread was about, it is not, but for the one
 * that forks: in a handler that interrupted it that is still at it. */
void hk_guarded_forked(hk_thread_t *thread, bool own);
