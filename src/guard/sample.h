/* Sampled guards: one in so many allocations gets a page of its own between inaccessible ones, at
 * its right or left edge in turn. When freed it stays inaccessible until all other places have been
 * used. An access beyond it or after its free prints a line and the stacks of allocation and free,
 * and ends the process or, with HAKMEM_ON_FAULT=report, lets it go on. No lock is taken.
 *
 *   | fence | place 0 | fence | place 1 | fence | ... */
#pragma once

#include "config/config.h"
#include "guard/guard.h"

/* Whether allocations are sampled. */
HK_INLINE bool hk_sampling(void) { return !HK_FAST && hk_option(guard_sample) != 0; }

/* From this interval on samples are so few that bytes may be counted down instead of allocations
 * (front/watched.c). */
enum { HK_SAMPLE_FEW_FROM = 4096 };

/* Makes the places and, the first time, installs a handler for SIGSEGV and SIGBUS, which passes on
 * faults that are not the guard's. False: the system refuses memory. The caller has entered its
 * record. */
bool hk_sample_prepare(void);

/* Installs that handler, once; it also reports accesses to fences. */
void hk_sample_handle(void);

/* A sampled block; NULL: n or `align` does not fit a page, n is 0, or no place is free. */
void *hk_sample_alloc(size_t n, size_t align, hk_by_t by);

/* A random number of allocations up to the next sample. */
unsigned hk_sample_gap(void);

/* Where bytes are counted down: how many bytes until the next candidate; and whether a candidate of
 * n bytes is chosen. Each allocation has the same chance in the end: with a gap of 16 bytes for
 * each allocation, one of n bytes is a candidate n/16 times as often, and one in n/16 candidates is
 * chosen. Allocations below 16 bytes have a little less. */
intptr_t hk_sample_gap_bytes(void);
bool hk_sample_is_chosen(size_t n);

/* Whether p lies on the places or their fences. */
bool hk_sample_has(const void *p);

/* Frees such a block, and its size; report a fault if there is no such block or a claim is
 * wrong. */
void hk_sample_free(void *p, hk_by_t by, size_t n);
size_t hk_sample_bytes(const void *p);
/* Shrinks a block in use to n bytes; false: it has fewer. */
bool hk_sample_cut(void *p, size_t n);
