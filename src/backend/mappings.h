/* Kernel mappings, of which a process can have only so many (vm.max_map_count).
 *
 * Moving pages, cutting a mapping and fencing a block take more of them, and can be done without.
 * Fresh memory cannot: for it a few spare ones are kept, in a range of which every other page can
 * be read. They go when the system refuses memory. Mappings are *short* from the moment when the
 * spare ones cannot be made until they can. */
#pragma once

#include "base/base.h"

/* Whether the spare mappings are there; makes them if not. Called before anything that takes
 * mappings and can be done without. This and the two below: any thread. */
bool hk_mappings_to_spare(void);

/* Whether something that can be done without may take mappings: the spare ones are there, or
 * mappings are not known to be short. */
bool hk_mappings_may_be_taken(void);

/* Unmaps the spare mappings, for something that cannot be done without; false: there are none. */
bool hk_mappings_let_go(void);

bool hk_mappings_are_short(void);

/* After a refusal for want of mappings, this many calls go without before it is tried again, and as
 * many more while mappings are short. `patience`: calls left that go without. atomic: any
 * thread. */
enum { HK_PATIENCE = 1024 };

/* Counts one call off *patience; at the last one starts anew if mappings are short. True: none was
 * left, since another thread has counted the last one. */
bool hk_mappings_waited(atomic_uint *patience);

/* Whether it may be tried; each false is a call that was counted. */
HK_INLINE bool hk_mappings_may(atomic_uint *patience) {
    return HK_LIKELY(hk_load_relaxed(patience) == 0) || hk_mappings_waited(patience);
}
