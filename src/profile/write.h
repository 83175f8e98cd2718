/* Writes a heap profile. Nothing is allocated by malloc and no lock is held, so that who reads what is written may be
 * a thread that allocates; each figure is of a moment of its own. */
#pragma once

#include "base/base.h"

/* What is told beside the samples. */
typedef struct {
    const char *reason; /* why it is written */
    uint64_t rss;       /* bytes of the process; 0: not known */
    uint64_t live;      /* of blocks that are in use; UINT64_MAX: not known */
    bool text;          /* the older form of pprof, "heap_v2" */
} hk_profile_about_t;

/* 0, or what the system says as errno does. Keeps errno. */
int hk_profile_write(int fd, const hk_profile_about_t *about);
