// Blocks that are written to all over, of sizes of which few fit into two mebibytes, or which use little of their last two,
// or of their last 64 KiB: what lies between them takes no memory. Nor does what one has that became shorter.
#include "process.h"

#include <stdint.h>

static void fill(size_t size) {
    enum { BYTES = 48 << 20 };
    const size_t before = process_rss(), n = BYTES / size;
    for (size_t i = 0; i < n; i++) {
        char *p = malloc(size);
        CHECK(p != NULL, "malloc(%zu)", size);
        memset(p, 1, size);
    }
    const size_t took = process_rss() - before;
    CHECK(took < n * size / 16 * 17 + (1 << 20), "%zu blocks of %zu bytes: %zu KiB are resident", n,
          size, took >> 10);
}

static void cut(size_t size) {
    enum { BYTES = 48 << 20 };
    const size_t before = process_rss(), n = BYTES / size;
    for (size_t i = 0; i < n; i++) {
        char *p = malloc(2 * size);
        CHECK(p != NULL, "malloc(%zu)", 2 * size);
        memset(p, 1, 2 * size);
        CHECK(realloc(p, size) != NULL, "realloc to %zu", size);
    }
    const size_t took = process_rss() - before;
    CHECK(took < n * size / 16 * 17 + (1 << 20), "%zu blocks cut down to %zu bytes: %zu KiB", n,
          size, took >> 10);
}

int main(void) {
    static const size_t sizes[] = {1062400, 1300000, 700000, 450000,      300000,
                                   200000,  100000,  65536,  2097152 + 1, 3 << 20};
    world_begin(60);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0) {
            fill(sizes[i]);
            _exit(0);
        }
        CHECK_CHILD_OK(child, "filled blocks");
    }
    cut(1100 << 10);
}
