// Statistics as a program gets them that is not linked to hakmem, and as the kernel gives them.
#ifndef WORLD_STATISTICS_H
#define WORLD_STATISTICS_H

#include "hakmem/hakmem.h"
#include "process.h"

static inline hak_stats_t statistics(void) {
    int (*get)(hak_stats_t *);
    hak_stats_t stats = {.size = sizeof stats};
    WORLD_FIND(get, "hak_stats_get");
    CHECK(get != NULL, "no hak_stats_get");
    CHECK(get(&stats) == 0, "hak_stats_get: %s", strerror(errno));
    return stats;
}

// Bytes of a line of /proc/self/smaps_rollup, read without allocating; 0 where it is not there.
static inline size_t smaps_rollup(const char *name) {
    static char text[4096];
    read_file("/proc/self/smaps_rollup", text, sizeof text);
    const char *line = strstr(text, name);
    return line == NULL ? 0 : strtoul(line + strlen(name), NULL, 10) * 1024;
}

#endif
