/* A look at what is free and resident, and the passes over it that give back what is more than the
 * process may keep (backend/demand.h). By the purger (policy/purger.h), or step by step by the one
 * thread that allocates, when it comes to the boundary. */
#pragma once

#include "base/lock.h"

/* Bytes of addresses handed out that may be in use, by what the process has of memory. Any thread. */
size_t hk_look_in_use(void);

/* No more in use than the target, so that there is never more to give back. */
bool hk_look_is_small(void);

/* The lock around all that follows, which a fork takes. */
extern hk_lock_t hk_look_lock;
void hk_look_forked(void);

/* Forgets what the process has shown that it takes back: the options have changed. Takes the lock. */
void hk_look_forget(void);

/* Begins a pass. It looks at all superslabs first, and ends there where no more is free than may be,
 * or as good as nothing that the pass before did not try in vain. `aged`: only what was free at the
 * look before too; `on_foot`: not by the purger. The lock is held, here and in all that follows; between two steps it need not
 * be. */
void hk_look_begin(bool aged, bool on_foot);

/* Looks at one superslab, or gives back what is free of one, or some cached ranges; returns whether
 * there is more to do. */
bool hk_look_step(uint64_t mode);

/* So many bytes must be freed before a look on foot can find anything to give back. Any thread. */
size_t hk_look_worth(void);

/* A pass has begun and not ended: whoever comes goes on with it. */
bool hk_look_is_under_way(void);

/* Whether the pass, or the last one, was on foot for what had been free at the look before too. */
bool hk_look_is_for_old(void);

/* Whether it tried to give something back of all there is, and there was nothing. */
bool hk_look_was_in_vain(void);

/* Whether the pass has given anything back, or the next one will because what is free will then be
 * old enough. */
bool hk_look_had_effect(void);

/* Whether something is left alone that will not be for ever. */
bool hk_look_breathes(void);
