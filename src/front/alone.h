/* The short ways of the boundary. A miss may have one thing to do beside serving, for which there
 * is a short way: be guarded, be counted by the commonest plan, or look at the crowd's shelves. With
 * two of these, or with samples or watchers, it goes the long way.
 *
 * A guarded or counted thread goes by its trap, and the trap says so (hk_tcache_t: `guarded`,
 * `counted`): hk_malloc_slow() and hk_free_slow() ask nothing else. */
#pragma once

#include "front/thread.h"

typedef enum { HK_ALONE_NOT, HK_ALONE_CROWD, HK_ALONE_COUNTED, HK_ALONE_GUARDED } hk_alone_t;
extern HK_HIDDEN _Atomic unsigned char
    hk_alone; /* atomic: written under the registry lock; an hk_alone_t */

/* Sets it anew, after something that it depends on may have changed. The registry is locked. */
void hk_alone_look_locked(void);

/* Sets what the thread's trap says, after hk_alone, the thread's plan or its quarantine has changed:
 * by whoever changed it, the owner or another thread (tests/models/alone.pml). */
void hk_alone_tell(hk_thread_t *thread);
