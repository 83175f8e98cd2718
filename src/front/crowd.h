/* A crowd: where there are more than a few dozen threads, one that is not busy in a class takes its blocks from slabs that all of
 * them share, for pages of its own for each class would be most of what it holds.
 *
 * What the crowd's threads free waits on *shelves* for who comes next: a few slots for each class, from which anybody takes, and into
 * which anybody puts, by one exchange. There is no lock whose holder the system could stop: of very many threads it stops
 * most. Blocks under a guard, and those of sparse classes, go to their slabs instead. */
#pragma once

#include "front/thread.h"

enum { HK_CROWDS = 16 };
extern hk_heap_t hk_crowds[HK_CROWDS];

/* How many of these heaps count as orphans: all of them, while there are few threads. */
extern atomic_uint hk_crowds_idle; /* atomic: written under the registry lock */

/* Whether there are many threads from now on. The registry is locked. */
void hk_crowds_gather_locked(bool many);

/* What lies on the shelves goes back to its slabs: when the threads become few, but in a fork's child, which it would cost pages, and
 * when all is to go back. The caller has entered its record. */
void hk_crowds_clear(void);

/* Adds the blocks of each class that lie on the shelves. Any thread. */
void hk_crowds_add_held(size_t blocks[HK_CLASS_COUNT]);

/* One of these heaps that nobody is at, or seems to be: the thread's last one, or from there on. Only as many are in use as
 * that has taken so far. */
hk_heap_t *hk_crowd(hk_thread_t *thread);

/* Whether a thread that comes to a class for the first time begins in the crowd; and whether it stays there at one more visit. */
bool hk_crowd_begins(const hk_thread_t *thread);
bool hk_crowd_stays(hk_magazine_t *magazine);

/* A block of the class; NULL: out of memory. The thread is entered. */
void *hk_crowd_take(hk_thread_t *thread, unsigned cls);

/* Takes a block of the class back; returns how many went to their slabs for that. The thread is entered. */
unsigned hk_crowd_give(hk_thread_t *thread, unsigned cls, void *p);
