/* Decides whether a pointer that is no block of ours may be the C library's. */
#pragma once

#include "base/report.h"

/* Reports a fault of this kind if p, which is no block of ours, cannot be one of the C library's
 * either. False: it may be. */
bool hk_guard_disowns(const void *p, hk_fatal_t kind);
