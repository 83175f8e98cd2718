/* Finds which of the profile's blocks can still be reached when the process ends. */
#pragma once

#include "profile/table.h"

/* Sums up, for each stack, the unreachable blocks, into which no word of the process's writable
 * memory points. The allocator's own memory and unreached blocks do not count; the main thread's
 * stack counts from `sp` on if `sp` lies in it. Searches in a copy of the process, for at most 30
 * seconds of its CPU time; other threads' registers are not seen. False: it could not be done. */
bool hk_reach_look(uintptr_t sp);
