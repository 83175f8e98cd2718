/* The purger: gives free memory back by itself. With decommit OFF there is none.
 *
 * Where one thread allocates, and there is no other, it does it itself, on foot: when as much has gone back to
 * its slabs as can make a difference, and a mebibyte at least, it looks, and a visit to the boundary goes on with
 * it for a tenth of a millisecond until it is done. Now and then, if anything is freed meanwhile, it
 * also looks for what has not been used again since the last time. A second thread would cost such a process more
 * than its own work: the C library's locks become real, and some doors of the system close. So it is
 * in the child of a fork until that has threads.
 *
 * Where there are several threads it is one of its own, so that no free is slow and a process that has gone
 * quiet is looked at too. It is started from an allocation (never from a free, which the C library
 * may call with its own locks held) once more memory than the target is in use, sleeps while nothing
 * is freed, and ends when no more than the target is in use any more. Awake, it looks once per
 * interval. Where more is free and resident than may be (backend/demand.h), it gives back what was
 * free at the look before too (DONTNEED: what is free now) until that is met. */
#pragma once

#include "config/config.h"

extern atomic_bool hk_purger_runs; /* a purger exists or is being started */
/* Whether at most one thread allocates. Written by the front under the registry's lock. */
extern atomic_bool hk_purger_on_foot;

/* Whether the C library has started threads, so that one more changes nothing for the process. Not every C
 * library says so, and in the child of a fork it speaks of the parent. */
extern atomic_bool hk_purger_in_child;
extern char __libc_single_threaded __attribute__((weak));
HK_INLINE bool hk_purger_has_company(void) {
    return &__libc_single_threaded != NULL && __libc_single_threaded == 0 &&
           !hk_load_relaxed(&hk_purger_in_child);
}

/* The calling thread is the purger's. Who replaces one of its calls, munmap() for instance, and allocates there, is served without
 * locks, for it may hold some; and it gets no record, whose end nobody would notice. */
extern _Thread_local bool hk_is_purger;

/* Starts the purger if the process has become large enough. Called by an allocation outside the
 * boundary, with no lock held: starting a thread allocates. */
void hk_purger_start_slow(void);
HK_INLINE void hk_purger_start(void) {
    if (!hk_load_relaxed(&hk_purger_runs) && hk_lean_mode() != HK_DECOMMIT_OFF &&
        (!hk_load_relaxed(&hk_purger_on_foot) || hk_purger_has_company()))
        hk_purger_start_slow();
}

/* So many bytes of blocks have gone back from magazines, or been freed. Any thread, any lock of
 * ours. */
void hk_purger_note_slow(size_t bytes);
HK_INLINE void hk_purger_note(size_t bytes) {
    if (bytes != 0 && hk_lean_mode() != HK_DECOMMIT_OFF)
        hk_purger_note_slow(bytes);
}

/* What is to be done on foot is done, or a part of it. The caller has entered its record, and holds
 * no lock. */
extern atomic_bool hk_purger_is_due;
void hk_purger_step(void);
HK_INLINE void hk_purger_go_on(void) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_purger_is_due)))
        hk_purger_step();
}

/* The front's part of it, before each look: idle threads lose most of what their magazines hold (front/idle.c). `freed`: something has been
 * freed since the last call; now: milliseconds. Returns after how many the next call is worth it, whatever happens; 0: none is. For the
 * purger's thread, or who else holds no lock and is outside the boundary. */
unsigned hk_idle_look(bool freed, uint64_t now);

/* Reads the options again. At the start of the process, and after one has changed. */
void hk_policy_apply(void);

/* The purger ends, until an allocation starts it again: the last thread of the program that allocates has ended,
 * and a process lives as long as any of its threads; or the program wants what only a process of one thread gets. */
void hk_purger_stop(void);
bool hk_purger_is_ending(void); /* it was told so, and the system has not put its thread away */

/* In the child of a fork, before which hk_look_lock was taken: there is no purger. */
void hk_purger_forked(void);
