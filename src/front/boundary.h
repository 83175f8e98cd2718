/* The boundary: where an operation goes that is no hit. The one place that decides what happens to
 * it. */
#ifndef HK_FRONT_BOUNDARY_H
#define HK_FRONT_BOUNDARY_H

#include "base/base.h"

/* When the process starts, after its options have been read: what they say about prewarming and
 * observing holds from here on, for the calling thread too if it has allocated already. */
void hk_front_start(void);

/* Makes every thread, now and later, do what the options say about observing: from its next
 * operation on each one goes by its trap cache or by its own, and sections are timed or not. Called
 * when such an option has been changed; any thread, outside of signal handlers. */
void hk_front_apply(void);

/* malloc without the hit path; NULL and ENOMEM when out of memory. */
void *hk_malloc_slow(size_t n);

/* free without the hit path; any pointer. Keeps errno. */
void hk_free_slow(void *p);

/* The same for what the short way of an observed thread (front/observed.h) cannot do. */
void *hk_malloc_long(size_t n);
void hk_free_long(void *p);

/* A block of n bytes that reads as zero, n > HK_MID_MAX: only what may be dirty is written. */
void *hk_calloc_large(size_t n);

/* A block of n bytes aligned to `align`, a power of two, that no class serves. */
void *hk_aligned_large(size_t n, size_t align);

/* Changes the size of p (not NULL) to n (not 0). On failure NULL and ENOMEM; p is untouched. */
void *hk_realloc(void *p, size_t n);

/* Bytes that may be used at p: at least what was asked for. 0 for NULL. */
size_t hk_usable(const void *p);

/* Gives back to the system all memory that is free; true if there was any. */
bool hk_trim(void);

#endif
