/* Reports blocks that are still in use when the process ends. */
#pragma once

#include "base/base.h"

/* Reports sampled blocks in use on stderr, by stack, the most bytes first; if `unreachable`, only
 * those that cannot be reached (profile/leaks.c). Leaves out stacks in which a function's or file's
 * name contains one of the comma-separated words `ignored`. True: there are any. */
bool hk_leaks_report(const char *ignored, bool unreachable);
