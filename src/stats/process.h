/* What the system says about the process as a whole, where /proc is there; 0 where it is not.
 * Allocates nothing, keeps errno, any thread. */
#ifndef HK_STATS_PROCESS_H
#define HK_STATS_PROCESS_H

#include "base/base.h"

/* The most bytes that have been resident (VmHWM). */
size_t hk_process_peak_resident(void);

/* Bytes that were given back lazily and not taken yet (LazyFree). Ours, unless other code of the
 * process gives memory back like this too. */
size_t hk_process_lazy(void);

#endif
