/* What is still in use when the process ends. */
#pragma once

#include "base/base.h"

/* Reports what is in use on stderr, by stack, the most bytes first, but for stacks in which a function or a file has
 * one of the comma-separated words in its name; or of that only what cannot be reached (profile/reach.h). True: there is
 * something. */
bool hk_leaks_report(const char *ignored, bool unreachable);
