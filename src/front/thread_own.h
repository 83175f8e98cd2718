/* What fork.c needs of the records, and they of it. */
#pragma once

#include "base/lock.h"
#include "front/thread.h"

extern hk_lock_t hk_registry;
extern hk_thread_t *hk_threads_all; /* lock: registry; every record but the shared one */

/* Of somebody who does not wait for ever; all but the first sleep for 50 us. */
enum { HK_MOST_TRIES = 20000 };

extern hk_lock_t hk_shared_lock;
extern hk_thread_t hk_shared_record; /* lock: shared */

/* Leaves the record to the next thread. */
void hk_thread_orphan_locked(hk_thread_t *thread);

/* Whether the record has a thread, which has not left by the system's call alone. */
bool hk_is_there_locked(const hk_thread_t *thread);

/* Whether the caller, a signal handler's then, has interrupted its thread inside the boundary. */
bool hk_thread_is_inside(void);

/* atomic: set by a thread that forks, while it holds all gates, the registry and the shared record */
extern atomic_bool hk_forking;

/* From now on a fork finds everything whole. Called by each thread that gets a record. */
void hk_fork_handle(void);
