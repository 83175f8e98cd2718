/* Thread records: what only the front's own files may use. */
#pragma once

#include "base/lock.h"
#include "front/thread.h"

extern hk_lock_t hk_registry;
extern hk_thread_t *hk_threads_all; /* lock: registry; every record but the shared one */

/* Tries of a wait that shall end after about a second: all but the first few sleep for 50 us. */
enum { HK_MOST_TRIES = 20000 };

extern hk_lock_t hk_shared_lock;
extern hk_thread_t hk_shared_record; /* lock: shared */

/* Leaves the record to the next thread. The registry is locked, or the process is a fork's
 * child. */
void hk_thread_orphan_locked(hk_thread_t *thread);

/* Whether the record has a thread that still exists: it may have left by the system's call
 * alone. */
bool hk_is_there_locked(const hk_thread_t *thread);

/* Whether the calling thread is inside the boundary: a caller that has not entered itself is a
 * signal handler that interrupted it there. Always true on the purger's thread. */
bool hk_thread_is_inside(void);

/* atomic: set by a thread that forks, from before it takes the registry until it releases all
 * gates. */
extern atomic_bool hk_forking;

/* atomic: set by a thread that has waited in vain for the purger to let it go; cleared by the
 * purger */
extern atomic_bool hk_held_for_good;

/* In a fork's child: the parent's other threads have left records with blocks in their magazines. */
void hk_idle_forked(void);

/* Registers the fork handlers (front/fork.c), once. Called by each thread that gets a record. */
void hk_fork_handle(void);
