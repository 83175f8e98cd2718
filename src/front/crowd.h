/* A crowd: where there are more than a few dozen threads, one that is not busy in a class has no magazine of it and takes its blocks
 * from slabs that all of them share, for pages of its own for each class would be most of what it holds. Where there are very many
 * threads that have little each, all of them are of the crowd, busy or not.
 *
 * In between blocks wait on *shelves*: a few of each class for each processor, from which a thread takes, and into which it
 * puts, by one exchange. No lock is taken, whose holder the system could stop (of very many threads it stops most), and nobody is entered:
 *
 *   malloc(n) ── a shelf of this processor ── empty ──► the boundary: half a shelf from slabs
 *   free(p) ──── a shelf of this processor ── full ───► the boundary: half of it to its slabs
 *
 * Which processor that is need not be true: it only keeps threads apart. Blocks under a guard, and those of sparse classes, go to
 * their slabs instead. */
#pragma once

#include "front/thread.h"

enum { HK_CROWDS = 16 };
extern hk_heap_t hk_crowds[HK_CROWDS];

/* How many of these heaps count as orphans: all of them, while there are few threads. */
extern atomic_uint hk_crowds_idle; /* atomic: written under the registry lock */

/* Whether there are many threads from now on. The registry is locked. */
void hk_crowds_gather_locked(bool many);

/* What lies on the shelves goes back to its slabs: when all is to go back. The caller has entered its record. */
void hk_crowds_clear(void);

/* The same as a thread ends, if no more than so many are left, and that is few: by a quarter fewer than what is many, for where threads come
 * and go around that, each of them would look through all shelves. */
void hk_crowds_clear_of_few(size_t threads);

/* Adds the blocks of each class that lie on the shelves. Any thread. */
void hk_crowds_add_held(size_t blocks[HK_CLASS_COUNT]);

/* One of these heaps that nobody is at, or seems to be: the thread's last one, or from there on. Only as many are in use as
 * that has taken so far. */
hk_heap_t *hk_crowd(hk_thread_t *thread);

/* Whether a thread that comes to a class for the first time begins in the crowd; whether it stays there at one more visit;
 * and whether one that has a magazine of it had better give that up. */
bool hk_crowd_begins(const hk_thread_t *thread);
bool hk_crowd_stays(hk_magazine_t *magazine);
bool hk_crowd_calls(void);

/* A block for n bytes, or NULL, and its way back, or false: by the shelf at hand, if the thread is of the crowd. Nobody is entered; nothing
 * is guarded or observed (HK_ALONE_CROWD). */
void *hk_crowd_pop(size_t n);
bool hk_crowd_push(void *p);

/* A block of the class; NULL: out of memory. The thread is entered. */
void *hk_crowd_take(hk_thread_t *thread, unsigned cls);

/* Takes a block of the class back; returns how many went to their slabs for that. The thread is entered. */
unsigned hk_crowd_give(hk_thread_t *thread, unsigned cls, void *p);
