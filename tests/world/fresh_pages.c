// Where each block is looked at before it is given out, a fresh page still faults only once, also
// between a block's ends.
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"

enum { BYTES = 8 << 20, PAGES = BYTES / 4096, MOST_BLOCKS = BYTES / 4000 };

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void fill(char **blocks, size_t bytes) {
    const size_t n = BYTES / bytes;
    const long before = faults();
    for (size_t i = 0; i < n; i++) {
        CHECK((blocks[i] = malloc(bytes)) != NULL, "malloc");
        memset(blocks[i], 1, bytes);
    }
    CHECK(faults() - before < PAGES * 5 / 4, "%ld faults for %d pages of blocks of %zu bytes",
          faults() - before, PAGES, bytes);
}

int main(void) {
    static char *blocks[2][MOST_BLOCKS];
    world_begin(60);
    fill(blocks[0], 4000);
    fill(blocks[1], 12000);
    return 0;
}
