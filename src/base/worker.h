/* Workers: threads of the allocator's own, invisible to the program. */
#pragma once

#include "base/base.h"

/* At the process's start, before it can have entered a sandbox: notes whether it has real-time
 * priority, which workers must not inherit. Only such a process makes a scheduling call later, for
 * which a sandbox may end it. */
void hk_worker_begin(void);

/* Starts run() on a small stack, detached, with all signals blocked. Returns 0 or
 * pthread_create()'s error. The C library allocates meanwhile, so the caller must hold no lock. */
int hk_worker_start(void (*run)(void));

/* How many workers run. More may exist that are starting or ending, never fewer; in a fork's child
 * 0. */
extern atomic_uint hk_workers; /* atomic: any thread */

/* False: the C library takes the caller for its parent, because it is the child of a vfork or was
 * made without the C library's fork. */
bool hk_has_own_number(void);

/* False: the caller runs in its parent's memory, or may do so. */
bool hk_is_own_memory(void);

/* Sets the calling thread's blocked signals, one bit each, and returns the previous set. `which` is
 * HK_SIGNALS_FROM_OUTSIDE or a returned set. The former leaves out signals that a thread causes
 * itself (blocked, they kill it; a sandbox answers calls with SIGSYS) and the C library's own. */
#define HK_SIGNALS_FROM_OUTSIDE UINT64_MAX
uint64_t hk_signals_block(uint64_t which);
