/* The crowd: with more than 32 threads, a thread that is not busy in a size class has no magazine
 * of it, and takes its blocks from slabs that all such threads share. Pages of its own for each
 * class would be most of what it holds. With more than 96 threads that have little each, all are of
 * the crowd, busy or not.
 *
 * In between blocks wait on *shelves*: for each processor a few of each class, which a thread takes
 * and puts by one exchange. It takes no lock, whose holder the system might stop (of very many
 * threads it stops most), and does not enter:
 *
 *   malloc(n) ── a shelf of this processor ── empty ──► the boundary: half a shelf from slabs
 *   free(p) ──── a shelf of this processor ── full ───► the boundary: half of it to its slabs
 *
 * Which processor that is need not be true: it only keeps threads apart. Blocks under a guard, and
 * those of sparse classes, go to their slabs instead. */
#pragma once

#include "front/thread.h"

enum { HK_CROWDS = 16 };
extern hk_heap_t hk_crowds[HK_CROWDS];

/* How many of these heaps count as orphans: all of them once threads have become few again, else
 * none. */
extern atomic_uint hk_crowds_idle; /* atomic: written under the registry lock */

/* The number of threads has become larger than HK_MANY_THREADS (`many`), or no longer is. The
 * registry is locked. */
void hk_crowds_gather_locked(bool many);

/* Gives all blocks on shelves back to their slabs, when all free memory is to go back. The caller
 * has entered its record. */
void hk_crowds_clear(void);

/* The same as a thread ends, once, if the threads left are no more than three quarters of
 * HK_MANY_THREADS: where threads come and go around that number, each of them would look through
 * all shelves. */
void hk_crowds_clear_of_few(size_t threads);

/* Adds the blocks of each class on the shelves. Any thread. */
void hk_crowds_add_held(size_t blocks[HK_CLASS_COUNT]);

/* One of these heaps whose lock is free, or seems to be: the thread's last one, or the next from
 * there on. One more heap comes into use each time all in use are locked. */
hk_heap_t *hk_crowd(hk_thread_t *thread);

/* Whether a thread begins in the crowd at its first visit to a class; whether it stays there at one
 * more; and whether all threads are of the crowd, so that one with a magazine should give that
 * up. */
bool hk_crowd_begins(const hk_thread_t *thread);
bool hk_crowd_stays(hk_magazine_t *magazine);
bool hk_crowd_calls(void);

/* The record is handed on with its blocks: it leaves the crowd in all classes, so that its next
 * thread decides anew. Not under a guard, where magazines were filled from the shared slabs. */
void hk_crowd_leave(hk_thread_t *thread);

/* A block for n bytes from the shelf at hand, or NULL; and its way back, or false: only if the
 * thread is of the crowd in that class. The thread is not entered; nothing is guarded or observed
 * (HK_ALONE_CROWD, front/alone.h). */
void *hk_crowd_pop(size_t n);
bool hk_crowd_push(void *p);

/* A block of the class; NULL: out of memory. *moved receives how many blocks came from slabs for
 * that. The thread is entered. */
void *hk_crowd_take(hk_thread_t *thread, unsigned cls, unsigned *moved);

/* Takes a block of the class back; returns how many blocks went to their slabs for that. The thread
 * is entered. */
unsigned hk_crowd_give(hk_thread_t *thread, unsigned cls, void *p);
