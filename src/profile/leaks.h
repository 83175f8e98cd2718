/* What is still in use when the process ends. */
#ifndef HK_PROFILE_LEAKS_H
#define HK_PROFILE_LEAKS_H

#include "base/base.h"

/* Reports what is in use on stderr, by stack, the most bytes first, but for stacks in which a function or a file has
 * one of the comma-separated words in its name. Whether anything points there is not looked at. True: there is
 * something. */
bool hk_leaks_report(const char *ignored);

#endif
