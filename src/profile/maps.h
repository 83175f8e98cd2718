/* What code the process has: its executable mappings, from /proc/self/maps, with the build ids of their files. */
#pragma once

#include "os/os.h"

typedef struct {
    uintptr_t start, end, offset;
    const char *path;          /* "" where it is no file's; until the next one is read */
    char build_id[2 * 64 + 1]; /* in hexadecimal digits; "" where there is none */
} hk_mapping_t;

/* A reader; zero but for its lines at first. */
typedef struct {
    hk_os_lines_t lines;   /* of HK_OS_MAPPINGS, open */
    uintptr_t file, bytes; /* where a file's beginning is mapped, and how much of it */
    uint64_t inode;
} hk_maps_t;

/* The next executable mapping. */
bool hk_maps_next(hk_maps_t *maps, hk_mapping_t *mapping);
