/* The boundary: where an operation goes that is no hit. The one place that decides what happens to
 * it. */
#pragma once

#include "base/base.h"
#include "guard/guard.h"

/* When the process starts, after its options have been read: what they say about prewarming and
 * observing holds from here on, for the calling thread too if it has allocated already. */
void hk_front_start(void);

/* Makes every thread, now and later, do what the options say about observing: from its next
 * operation on each one goes by its trap cache or by its own, and sections are timed or not. Called
 * when such an option has been changed; any thread, outside of signal handlers. False: another thread's fork lasts, and not
 * all have been told. */
bool hk_front_apply(void);

/* malloc without the hit path; NULL and ENOMEM when out of memory. The same for n bytes aligned to
 * `align`, a power of two, for who gives the block out. */
void *hk_malloc_slow(size_t n);
void *hk_aligned_slow(size_t n, size_t align, unsigned by);

/* free without the hit path; any pointer. Keeps errno. The same for somebody who says more than the
 * address: who gave the block out and, or HK_ANY_SIZE, how large it is, and what it is aligned to, or 1. */
void hk_free_slow(void *p);
void hk_delete_slow(void *p, hk_by_t by, size_t n, size_t align);

/* The same operations, and hk_realloc() and hk_calloc_large(), of which no watcher hears
 * (front/watched.h). */
void *hk_malloc_unwatched(size_t n, size_t align, hk_by_t by);
void hk_free_unwatched(void *p, hk_by_t by, size_t n);
void *hk_realloc_unwatched(void *p, size_t n);
void *hk_calloc_large_unwatched(size_t n);

/* The same for what the short way of an observed thread (front/observed.h) cannot do. */
void *hk_malloc_long(size_t n);
void hk_free_long(void *p);

/* A block of n bytes that reads as zero, n > HK_MID_MAX: only what may be dirty is written. */
void *hk_calloc_large(size_t n);

/* A block of class cls for n bytes or, where that is 0, a large one, whatever guards it; and a large one that reads as zero. */
void *hk_take_block(unsigned cls, size_t n, size_t align);
void *hk_take_clear(size_t n, size_t align);

/* Hears of each allocation that is about to be refused for want of memory, outside of the boundary, after all that
 * is free has gone back to the system: so many bytes, tried again so many times already. True: once more. What it
 * allocates itself is refused without its hearing of it. NULL, the default: nobody hears. */
typedef bool hk_refusal_t(size_t n, unsigned tries);
extern _Atomic(hk_refusal_t *) hk_refusal;

/* NULL and ENOMEM, counted: an allocation that is refused. */
void *hk_refused(void);

/* hk_malloc_unwatched() for who can do without: nobody is asked to free something for it, and it is not refused. */
void *hk_take_smaller(size_t n);

/* Sizes (front/resize.c). Changes the size of p (not NULL) to n (not 0). On failure NULL and ENOMEM; p is untouched. */
void *hk_realloc(void *p, size_t n);

/* Bytes that may be used at p: at least what was asked for. 0 for NULL. */
size_t hk_usable(const void *p);
size_t hk_usable_slow(const void *p); /* where it is no hit */

/* What lies around p, any address. */
hk_around_t hk_around(const void *p);

/* Gives back to the system all memory that is free; true if there was any. */
bool hk_trim(void);
