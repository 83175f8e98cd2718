/* What code the process has: its executable mappings, from /proc/self/maps, with the build ids of their files. */
#pragma once

#include "base/base.h"

typedef struct {
    uintptr_t start, end, offset;
    const char *path;          /* "" where it is no file's; until the next one is read */
    char build_id[2 * 64 + 1]; /* in hexadecimal digits; "" where there is none */
} hk_mapping_t;

/* A reader, of one thread, from open to close. */
typedef struct {
    int fd;
    size_t from, to;       /* in `text`: what has been read and not been used yet */
    uintptr_t file, bytes; /* where a file's beginning is mapped, and how much of it */
    uint64_t inode;
    char text[8192];
} hk_maps_t;

/* False: it cannot be read. */
bool hk_maps_open(hk_maps_t *maps);
void hk_maps_close(hk_maps_t *maps);

/* The next line, without its end, valid until the next one is read; NULL: there is none. */
char *hk_maps_line(hk_maps_t *maps);

/* The next executable mapping. */
bool hk_maps_next(hk_maps_t *maps, hk_mapping_t *mapping);
