/* The purger: gives free memory back by itself, also in a process that has gone quiet.
 *
 * It is a thread of its own. It is started from an allocation (never from a free, which
 * the C library may call with its own locks held) once more memory than the target is in use,
 * sleeps while nothing is freed, and ends when no more than the target is in use any more. With
 * decommit OFF there is none.
 *
 * Awake, it looks once per interval. Where more than the target is free and resident, it gives back
 * what was free at the look before too (DONTNEED: what is free now) until the target is met. */
#ifndef HK_POLICY_PURGER_H
#define HK_POLICY_PURGER_H

#include "base/base.h"

extern atomic_bool hk_purger_may_start; /* whether hk_purger_start() may have something to do */
extern atomic_bool hk_purger_runs;      /* a purger exists or is being started */

/* Starts the purger if the process has become large enough. Called by an allocation outside the
 * boundary, with no lock held: starting a thread allocates. */
void hk_purger_start_slow(void);
HK_INLINE void hk_purger_start(void) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_purger_may_start)))
        hk_purger_start_slow();
}

/* So many bytes of blocks have gone back from magazines, or been freed. Any thread, any lock of
 * ours. */
void hk_purger_note_slow(size_t bytes);
HK_INLINE void hk_purger_note(size_t bytes) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_purger_runs)))
        hk_purger_note_slow(bytes);
}

/* Reads the options again. At the start of the process, and after one has changed. */
void hk_policy_apply(void);

/* The purger ends, until an allocation starts it again: the last thread of the program that
 * allocates has ended, and a process lives as long as any of its threads. */
void hk_purger_stop(void);

/* Around a fork, in the parent: the purger does not work meanwhile. */
void hk_purger_hold(void);
void hk_purger_release(void);

/* In the child of that fork, where there is no purger. */
void hk_purger_forked(void);

#endif
