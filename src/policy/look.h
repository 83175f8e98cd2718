/* Looks at what is free and resident, and passes that give back what is more than the process may
 * keep (backend/demand.h). Made by the purger (policy/purger.h), or step by step by a thread that
 * comes to the boundary, mostly the one that allocates (*on foot*). */
#pragma once

#include "base/lock.h"

/* Bytes handed out that may be in use: no more than the process has of memory. Any thread. */
size_t hk_look_in_use(void);

/* No more is handed out and cached than the target, so that there is never more to give back. */
bool hk_look_is_small(void);

/* The lock around all that follows, which a fork takes. In the fork's child, once it is released:
 * nobody waits for it, and the demand begins anew. */
extern hk_lock_t hk_look_lock;
void hk_look_forked(void);

/* Forgets the process's breath, and which classes are sparse: the options have changed. Takes the
 * lock. */
void hk_look_forget(void);

/* Begins a pass. It looks at all superslabs first, and ends there if no more is free than may be,
 * or hardly more than the pass before tried in vain. `aged`: it gives back only what was free at
 * the look before too; `on_foot`: not by the purger. The lock is held, here and in all that
 * follows; between two steps it need not be. */
void hk_look_begin(bool aged, bool on_foot);

/* Looks at one superslab, or gives back some cached ranges, or what is free of a pack or a
 * superslab; returns whether there is more to do. */
bool hk_look_step(uint64_t mode);

/* Bytes that must be freed before a look on foot, unless it is aged, can find anything to give
 * back. Any thread. */
size_t hk_look_worth(void);

/* A pass has begun and not ended: the next step, of any thread, goes on with it. */
bool hk_look_is_under_way(void);

/* Whether the pass, or the last one, was on foot and aged. */
bool hk_look_is_for_old(void);

/* Whether it has looked for something to give back in all superslabs, and there was nothing. */
bool hk_look_was_in_vain(void);

/* Whether the pass has given anything back, or the next one will because what is free will be old
 * enough then. */
bool hk_look_had_effect(void);

/* Whether memory is left alone as the process's breath, which fades: a later look may give it
 * back. */
bool hk_look_breathes(void);
