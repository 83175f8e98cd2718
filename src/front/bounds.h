/* Bounds: what the system would grant the process. Where memory turns out to be bounded, it is
 * spent with more care from then on; where addresses are, the flat page map goes back. */
#pragma once

#include "base/base.h"

/* Finds that out, for a request of so many bytes; true: something has changed. Due after a refusal,
 * and whenever hk_region_look_is_due says so. The caller has entered its record, and holds no
 * lock. */
bool hk_bounds_look(size_t wanted);

/* The process has set a limit on its data. Any thread. */
void hk_data_limited(void);

/* The process has set a limit on its addresses. Not `own`: the caller may run in its parent's
 * memory, as the child of a vfork, and only a later allocation looks. Where little is left beside
 * the flat page map, that goes back before this returns, so that the process's own mappings and
 * threads find room. Any thread, also in a fork's child and in a signal handler; where that would
 * take a lock that is not to be had within a second or two, a later allocation does it. */
void hk_addresses_limited(bool own);
