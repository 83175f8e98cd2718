// In a sandbox that has no munmap what is freed keeps its addresses, and no memory; the process does not run out of mappings.
#include "pattern.h"
#include "process.h"
#include "sandbox.h"

enum {
    BLOCKS = 200,
    ROUNDS = 20000,
    MOST_BYTES = 70000,
    MOST_LARGE = 6000000,
    MOST_MAPPINGS = 8000
};

static size_t mappings(void) {
    static char text[1 << 22];
    size_t lines = 0;
    read_file("/proc/self/maps", text, sizeof text);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

// Blocks of up to so many bytes that are replaced at random, all of each written to.
static void replace(size_t rounds, size_t most) {
    static block_t *blocks[BLOCKS];
    uint64_t rng = 5;
    for (size_t i = 0; i < rounds; i++) {
        block_t **block = &blocks[rng_below(&rng, BLOCKS)];
        if (*block != NULL)
            block_delete(*block);
        *block = block_new(sizeof **block + rng_below(&rng, most), i);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i] != NULL)
            block_delete(blocks[i]);
    memset(blocks, 0, sizeof blocks);
}

int main(void) {
    world_begin(120);
    sandbox_without(SYS_munmap);
    const size_t before = process_rss();
    replace(ROUNDS, MOST_BYTES);
    const size_t small = process_rss();
    replace(ROUNDS / 20, MOST_LARGE);
    const size_t large = process_rss();
    CHECK(small < before + 28 * MIB, "%zu MiB after blocks of up to 70 KB", small / MIB);
    CHECK(large < before + 60 * MIB, "%zu MiB after blocks of up to 6 MB", large / MIB);
    CHECK(mappings() < MOST_MAPPINGS, "%zu mappings", mappings());
    return 0;
}
