/* Writes a heap profile. Calls no malloc and holds no lock, so its reader may be a thread of the
 * process that allocates. Each figure is of a moment of its own. */
#pragma once

#include "base/base.h"

/* What a profile contains besides samples. */
typedef struct {
    const char *reason; /* why it is written; part of the profile */
    uint64_t rss;       /* resident bytes of the process; 0: unknown */
    uint64_t live;      /* bytes of blocks in use; UINT64_MAX: unknown */
    bool text;          /* pprof's older text format, "heap_v2" */
} hk_profile_about_t;

/* Returns 0 or an errno value. Keeps errno. */
int hk_profile_write(int fd, const hk_profile_about_t *about);
