/* The guarded front: what the boundary does when every operation is checked. All threads go by
 * their traps then, so that each operation comes here.
 *
 *   malloc(n) ── a block that has waited in quarantine; else the magazine, refilled in random order ── hk_block_hand_out
 *   free(p) ──── hk_block_take_back ── quarantine, which drives out a random block; too many of these: magazine
 *
 * Blocks above 32 KiB, and of no bytes, are fenced. */
#pragma once

#include "front/thread.h"
#include "guard/guard.h"
#include "guard/sample.h"

/* Guards from now on. Called once, when the process starts. */
void hk_guarded_start(void);

/* The short ways (front/alone.h) of a thread with that quarantine: malloc and free, and any entry
 * point. */
void *hk_guarded_malloc_alone(size_t n, hk_quarantine_t *q) __attribute__((nonnull));
void hk_guarded_free_alone(void *p, hk_quarantine_t *q) __attribute__((nonnull(2)));
void *hk_guarded_new_alone(size_t n, hk_by_t by, hk_quarantine_t *q) __attribute__((nonnull));
void hk_guarded_delete_alone(void *p, hk_by_t by, size_t n, hk_quarantine_t *q)
    __attribute__((nonnull(4)));

/* The guarded operations, for the entry points. */
void *hk_guarded_malloc(size_t n, hk_by_t by);
void *hk_guarded_aligned(size_t n, size_t align, hk_by_t by);
void hk_guarded_delete(void *p, hk_by_t by, size_t n);
void *hk_guarded_realloc(void *p, size_t n);
size_t hk_guarded_usable(const void *p);

/* The thread's quarantine; NULL: it has none. */
HK_INLINE hk_quarantine_t *hk_quarantine_of(hk_thread_t *thread) {
    return thread != NULL ? hk_load_acquire(&thread->quarantine) : NULL;
}

/* Whether it is closed: the caller is a signal handler that has interrupted its thread at a
 * block. */
HK_INLINE bool hk_quarantine_is_busy(const hk_quarantine_t *q) {
    return hk_load_relaxed(&q->dice) == 0;
}

/* Gives the thread's record what sampling and guarding need, if it has its rest. The registry is
 * locked. */
void hk_guarded_set_up_locked(hk_thread_t *thread);

/* Prepares blocks that come from slabs and go to the thread's magazine: brings their pages in, and
 * shuffles them. */
void hk_guarded_refilled(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n);

/* Checks the blocks in the thread's quarantine, and gives them to its heap. The thread is
 * entered. */
void hk_guarded_flush(hk_thread_t *thread);

/* The thread ends: checks the blocks in its quarantine, but leaves them there for the record's next
 * thread; returns their bytes. */
size_t hk_guarded_end(hk_thread_t *thread);

/* The process ends: hk_guarded_flush() of the calling thread and its magazines and, where no other
 * thread is there, checks of what else can be checked in milliseconds. */
void hk_guarded_finish(void);

/* In a fork's child, before all else: notes whether the process had other threads. Guarded
 * operations change blocks outside the boundary too, where a fork does not hold threads: such a
 * change may be half done. */
void hk_guarded_others_left(void);

/* The same, for each record: its random order begins anew, and its quarantine is open, which a
 * thread that does not exist here may have closed. Not so the forking thread's `own`, if it forks
 * in a handler that interrupted it at a block: it goes on there. */
void hk_guarded_forked(hk_thread_t *thread, bool own);
