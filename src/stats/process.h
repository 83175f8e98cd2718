/* What the system says about the process as a whole. */
#ifndef HK_STATS_PROCESS_H
#define HK_STATS_PROCESS_H

#include "base/base.h"

/* The most bytes that have been resident (VmHWM of /proc/self/status); 0 where that cannot be read.
 * Allocates nothing, keeps errno, any thread. */
size_t hk_process_peak_resident(void);

#endif
