/* Pointers that are no blocks of ours: may they be the C library's own? */
#pragma once

#include "base/report.h"

/* A fault of this kind, where p, which is no block of ours, cannot be one of the C library's own either. False: it may be. */
bool hk_guard_disowns(const void *p, hk_fatal_t kind);
