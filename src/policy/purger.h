/* The purger: gives free memory back by itself. With decommit OFF there is none.
 *
 * Where one thread allocates, and there is no other, that thread does it, *on foot*: once so much
 * has gone back to its slabs as can make a difference, and a mebibyte at least, it looks, and each
 * visit to the boundary goes on for a tenth of a millisecond until the pass is done. Now and then,
 * if anything is freed meanwhile, it also looks for memory that has not been used again since the
 * last such look. A second thread would cost such a process more than its own work: the C library's
 * locks become real, and some system calls are refused. The child of a fork goes on foot until it
 * has threads.
 *
 * Where there are several threads the purger is a thread of its own, so that no free is slow and a
 * process that has gone quiet is looked at too. An allocation starts it (never a free, which the C
 * library may call with its own locks held) once more memory than the target is in use. It sleeps
 * while nothing is freed, and ends when no more than the target is in use. Awake, it looks once per
 * interval. Where more is free and resident than may be (backend/demand.h), it gives back what was
 * free at the look before too (DONTNEED: all that is free now) until that is met. */
#pragma once

#include "config/config.h"

extern atomic_bool hk_purger_runs; /* a purger exists or is being started */
/* Whether at most one thread allocates. Written by the front under the registry's lock. */
extern HK_HIDDEN atomic_bool hk_purger_on_foot;

/* Whether the C library has started threads, so that one more changes nothing for the process. Not
 * every C library says so, and in a fork's child its word is the parent's. */
extern atomic_bool hk_purger_in_child;
extern char __libc_single_threaded __attribute__((weak));
HK_INLINE bool hk_purger_has_company(void) {
    return &__libc_single_threaded != NULL && __libc_single_threaded == 0 &&
           !hk_load_relaxed(&hk_purger_in_child);
}

/* The calling thread is the purger's. If the program replaces a function that it calls, munmap()
 * for instance, and allocates there, that is served without locks, for the purger may hold some;
 * and it gets no record, whose end would not be noticed. */
extern _Thread_local bool hk_is_purger;

/* Starts the purger if the process has become large enough. Called by an allocation outside the
 * boundary, with no lock held: starting a thread allocates. */
void hk_purger_start_slow(void);
HK_INLINE void hk_purger_start(void) {
    if (!hk_load_relaxed(&hk_purger_runs) && hk_lean_mode() != HK_DECOMMIT_OFF &&
        (!hk_load_relaxed(&hk_purger_on_foot) || hk_purger_has_company()))
        hk_purger_start_slow();
}

/* So many bytes of blocks have gone back from magazines, or been freed. Any thread, with any lock
 * of ours held. */
void hk_purger_note_slow(size_t bytes);
HK_INLINE void hk_purger_note(size_t bytes) {
    if (bytes != 0 && hk_lean_mode() != HK_DECOMMIT_OFF)
        hk_purger_note_slow(bytes);
}

/* Work on foot is due: does it, or a part of it. The caller has entered its record, and holds no
 * lock. */
extern atomic_bool hk_purger_is_due;
void hk_purger_step(void);
HK_INLINE void hk_purger_go_on(void) {
    if (HK_UNLIKELY(hk_load_relaxed(&hk_purger_is_due)))
        hk_purger_step();
}

/* The front's part, before each look of the purger: takes most of what idle threads' magazines hold
 * (front/idle.c). `freed`: something has been freed since the last call; now: milliseconds. Returns
 * after how many of these the next call is worth it, even if nothing is freed; 0: it is not. For
 * the purger's thread, or another one that holds no lock and is outside the boundary. */
unsigned hk_idle_look(bool freed, uint64_t now);

/* The front's part of a step in a process with one thread: in a fork's child, empties the magazines
 * of one of the parent's threads. True if there was one. The caller may take the registry's lock. */
bool hk_idle_step(void);

/* Applies the options anew: at the start of the process, and after one has changed. The caller has
 * entered its record, or has no other thread. */
void hk_policy_apply(void);

/* Ends the purger, until an allocation starts it again: the last thread of the program that
 * allocates has ended, and a process lives as long as any of its threads; or the program wants what
 * only a process of one thread gets. */
void hk_purger_stop(void);
bool hk_purger_is_ending(void); /* told to, and its thread still exists */

/* In a fork's child, which has no purger: releases hk_look_lock, which the fork took. */
void hk_purger_forked(void);
