/* Kernel mappings, of which a process has so many (vm.max_map_count).
 *
 * Moving pages, cutting a mapping and fencing a block take more of them, and each can be done without.
 * Fresh memory cannot: for that some are kept to spare, in a range of which every other page can be
 * read. They go when the system refuses memory. Mappings are *short* when so many more cannot be
 * had, until they can. */
#pragma once

#include "base/base.h"

/* Whether the spare ones are there; makes them where they are not. Before anything that takes mappings
 * and can be done without. Any thread; as the two below. */
bool hk_mappings_to_spare(void);

/* Whether what can be done without may take more: they are there, or nothing is known to be short. */
bool hk_mappings_may_be_taken(void);

/* Lets go of them, for what cannot be done without; false: there are none. */
bool hk_mappings_let_go(void);

bool hk_mappings_are_short(void);

/* After a refusal for want of mappings, so many calls pass before what takes some is tried again, and
 * as many more while mappings are short. `patience`: calls left that do without. atomic: any thread. */
enum { HK_PATIENCE = 1024 };

/* Counts one call off what is left; starts from the beginning where mappings are short at the end. True: another thread
 * has counted the last one. */
bool hk_mappings_waited(atomic_uint *patience);

/* Whether it may be tried; each no is a call that was counted. */
HK_INLINE bool hk_mappings_may(atomic_uint *patience) {
    return HK_LIKELY(hk_load_relaxed(patience) == 0) || hk_mappings_waited(patience);
}
