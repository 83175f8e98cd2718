// Blocks of all sizes of which a byte is written: what nobody touches takes no memory.
#include "process.h"

#include <stdint.h>
#include <sys/resource.h>

enum { BLOCKS = 2000, STEPS = 20000 };

static void replace(size_t most) {
    static char *blocks[BLOCKS];
    uint32_t x = 1;
    for (unsigned i = 0; i < STEPS; i++) {
        x = x * 1664525u + 1013904223u;
        char **block = &blocks[(x >> 8) % BLOCKS];
        if (*block != NULL) {
            free(*block);
            *block = NULL;
        } else if ((*block = malloc(1 + (x >> 4) * 2654435761u % most)) != NULL) {
            **block = 1;
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

int main(void) {
    static const size_t most[] = {100000, 1000000, 4000000, 64000000};
    world_begin(60);
    for (unsigned i = 0; i < sizeof most / sizeof most[0]; i++) {
        replace(most[i]);
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        const long most_kib = 64 * 1024;
        CHECK(usage.ru_maxrss < most_kib, "sizes up to %zu: peak of %ld KiB", most[i],
              usage.ru_maxrss);
    }
}
