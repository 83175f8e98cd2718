/* The boundary: where operations go that are no hits, and the one place that decides how each is
 * served. */
#pragma once

#include "front/tcache.h"
#include "guard/guard.h"

/* At the start of the process, after its options have been read: applies what they say about
 * prewarming, guarding and observing, to the calling thread too if it has allocated already. */
void hk_front_start(void);

/* Makes every thread, now and later, do what the options say about observing: from its next
 * operation on it goes by its trap or by its own cache, and sections are timed or not. Called when
 * such an option has changed; any thread, outside of signal handlers. False: another thread's fork
 * lasts, and not all threads have been told. */
bool hk_front_apply(void);

/* malloc after a miss in that cache; NULL and ENOMEM: out of memory. The same for n bytes aligned to `align`, a
 * power of two, with the entry point that gives the block out (hk_by_t). */
void *hk_malloc_slow(size_t n, hk_tcache_t *tc);
void *hk_aligned_slow(size_t n, size_t align, unsigned by);

/* free after a miss in that cache; any pointer. Keeps errno. The same with what the caller claims: by which entry
 * point the block was given out, its size or HK_ANY_SIZE, and its alignment or 1. */
void hk_free_slow(void *p, hk_tcache_t *tc);
void hk_delete_slow(void *p, hk_by_t by, size_t n, size_t align);

/* The same operations, and hk_realloc() and hk_calloc_large(), without telling watchers
 * (front/watched.h). */
void *hk_malloc_unwatched(size_t n, size_t align, hk_by_t by);
void hk_free_unwatched(void *p, hk_by_t by, size_t n);
void *hk_realloc_unwatched(void *p, size_t n);
void *hk_calloc_large_unwatched(size_t n);

/* The same behind guard, watchers and the short way of observed threads (front/observed.h): they
 * enter, and go to the thread's layers and magazines, or to the backend. */
void *hk_malloc_long(size_t n);
void hk_free_long(void *p);

/* A block of n bytes that reads as zero, n > HK_MID_MAX: only what may be dirty is written. */
void *hk_calloc_large(size_t n);

/* A block of class cls for n bytes or, where cls is 0, a large one, without guarding it; and a
 * large one that reads as zero. */
void *hk_take_block(unsigned cls, size_t n, size_t align);
void *hk_take_clear(size_t n, size_t align);

/* The refusal hook: called for each allocation of n bytes that is about to be refused for want of
 * memory, outside the boundary, after all free memory has gone back to the system, and retried
 * `tries` times already. True: once more. An allocation that the hook makes itself is refused
 * without another call. NULL, the default: no hook. */
typedef bool hk_refusal_t(size_t n, unsigned tries);
extern _Atomic(hk_refusal_t *) hk_refusal;

/* Refuses an allocation: counts it, sets ENOMEM and returns NULL. */
void *hk_refused(void);

/* hk_malloc_unwatched() for a caller that can do without the block: a failure calls no hook, is not
 * counted as refused, and keeps errno. */
void *hk_take_smaller(size_t n);

/* Sizes (front/resize.c). Changes the size of p (not NULL) to n (not 0). On failure NULL and
 * ENOMEM; p is untouched. */
void *hk_realloc(void *p, size_t n);

/* Bytes that may be used at p: at least what was asked for. 0 for NULL. */
size_t hk_usable(const void *p);
size_t hk_usable_slow(const void *p); /* after a miss */

/* The block around p, any address. */
hk_around_t hk_around(const void *p);

/* Gives all free memory back to the system; true: there was any. */
bool hk_trim(void);

/* Bounds (front/bounds.c): what the system would grant the process. Where memory turns out to be
 * bounded, it is spent with more care from then on; where addresses are, the flat page map goes
 * back. Finds that out, for a request of so many bytes; true: something has changed. Due after a
 * refusal, and whenever hk_region_look_is_due says so. The caller has entered its record, and holds
 * no lock. */
bool hk_bounds_look(size_t wanted);

/* The process has set a limit on its data. Any thread. */
void hk_data_limited(void);

/* The process has set a limit on its addresses. Not `own`: the caller may run in its parent's
 * memory, as the child of a vfork, and only a later allocation looks. Where little is left beside
 * the flat page map, that goes back before this returns, so that the process's own mappings and
 * threads find room. Any thread, also in a fork's child and in a signal handler; where that would
 * take a lock that is not to be had within a second or two, a later allocation does it. */
void hk_addresses_limited(bool own);
