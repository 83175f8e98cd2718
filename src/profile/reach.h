/* What can still be reached when the process ends, as far as the profile knows the blocks. */
#pragma once

#include "profile/table.h"

/* Sums up, for each stack, the blocks that nothing points into: no word of the process's writable memory, of which the
 * main thread's stack counts from `sp` on where that is there, but for that of the allocator and of blocks that are not
 * reached themselves.
 * Looked at in a copy of the process, for at most half a minute of its time; what other threads have in registers is not seen.
 * False: it cannot be done. */
bool hk_reach_look(uintptr_t sp);
