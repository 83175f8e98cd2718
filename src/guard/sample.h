/* Sampled guards: one in so many allocations lies on a page of its own between inaccessible ones, at its
 * right or left edge in turn, and stays inaccessible when it is freed, until all other places have been
 * taken since. A read or write beyond it, or after it was freed, ends the process with a line that says
 * which, and with the stacks of allocation and free, or goes on after them (HAKMEM_ON_FAULT=report). No lock is taken.
 *
 *   | fence | place 0 | fence | place 1 | fence | ... */
#pragma once

#include "config/config.h"
#include "guard/guard.h"

/* Whether any are sampled: one in so many allocations as the option says. */
HK_INLINE bool hk_sampling(void) { return !HK_FAST && hk_option(guard_sample) != 0; }

/* From so many on, samples are so few that bytes may be counted down instead of allocations (front/watched.c). */
enum { HK_SAMPLE_FEW_FROM = 4096 };

/* Makes the places, and the first time installs a handler for SIGSEGV and SIGBUS, which hands on what is not about a sampled
 * block. False: the system refuses memory. The caller has entered its record. */
bool hk_sample_prepare(void);

/* Installs that handler, once: it tells what a fence was touched for too. */
void hk_sample_handle(void);

/* A sampled block; NULL: it is too large for one, or no place is free. Of `by` malloc, new or new[]. */
void *hk_sample_alloc(size_t n, size_t align, hk_by_t by);

/* How many allocations from now on the next one shall be. */
unsigned hk_sample_gap(void);

/* Where bytes are counted: how many, after how many it may be the next one's turn; and whether it is that of one of n bytes,
 * so that each allocation has the same chance in the end. Of a gap of 16 bytes for each allocation one of n has n/16 times
 * as many to be met, and of these one in n/16 counts; shorter ones than 16 bytes, a little less. */
intptr_t hk_sample_gap_bytes(void);
bool hk_sample_is_chosen(size_t n);

/* Whether p lies on the places or their fences. */
bool hk_sample_has(const void *p);

/* What to do with such a block; a fault where what frees it says is not so. */
void hk_sample_free(void *p, hk_by_t by, size_t n);
size_t hk_sample_bytes(const void *p);
/* It is in use, and has no more than n bytes from now on; false: it has fewer. */
bool hk_sample_cut(void *p, size_t n);
