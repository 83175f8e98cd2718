/* A worker: a thread of the allocator's own, which the program does not notice. */
#pragma once

#include "base/base.h"

/* At the start of the process, before it may have entered a sandbox: one that has real-time priority then does not hand it
 * on to workers. Only there may they need a call about scheduling, which a sandbox may end the process for. */
void hk_worker_begin(void);

/* Starts run() on a small stack, detached and with all signals blocked. 0, or what
 * pthread_create() says. Allocates (the C library does), so no lock may be held. */
int hk_worker_start(void (*run)(void));

/* How many are at work. There may be more of them, about to begin or to end, but never fewer; in a fork's child none. */
extern atomic_uint hk_workers; /* atomic: any thread */

/* False: the caller has its parent's number for the C library: it is the child of a vfork, or was made past the C library's
 * fork. */
bool hk_has_own_number(void);

/* False: the caller is in its parent's memory, or may be. */
bool hk_is_own_memory(void);

/* Has the calling thread block these signals, a bit for each, and returns which it did before: all from outside, or what
 * was returned. Not those that a thread causes itself: to block them is to die of them, and a sandbox answers calls
 * with SIGSYS; nor the C library's own. */
#define HK_SIGNALS_FROM_OUTSIDE UINT64_MAX
uint64_t hk_signals_block(uint64_t which);
