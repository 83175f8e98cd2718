/* Reads the process's executable mappings from /proc/self/maps, with the build ids of their
 * files. */
#pragma once

#include "os/os.h"

typedef struct {
    uintptr_t start, end, offset;
    const char *path;          /* "": no file; valid until the next is read */
    char build_id[2 * 64 + 1]; /* hexadecimal; "": none */
} hk_mapping_t;

/* A reader. Start with all fields but `lines` zero. */
typedef struct {
    hk_os_lines_t lines;   /* of HK_OS_MAPPINGS, open */
    uintptr_t file, bytes; /* the last mapping of a file's beginning */
    uint64_t inode;
} hk_maps_t;

/* Reads the next executable mapping; false: there is none. */
bool hk_maps_next(hk_maps_t *maps, hk_mapping_t *mapping);
