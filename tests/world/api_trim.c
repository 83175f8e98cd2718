// malloc_trim gives memory back to the system, keeps live blocks whole, and the heap stays usable.
#include "pattern.h"
#include "process.h"

#include <malloc.h>

enum { HEAP = 64 << 20 };

static void check_trim(void) {
    int answer = malloc_trim(0);
    CHECK(answer == 0 || answer == 1, "malloc_trim(0) = %d", answer);
}

// Frees all but every keep-th block (none kept if 0); the share of the growth that must go is in
// percent.
static void trim_after(size_t size, size_t keep, size_t percent) {
    size_t count = HEAP / size;
    block_t **blocks = malloc(count * sizeof *blocks);
    check_trim();
    size_t before = process_rss();
    for (size_t i = 0; i < count; i++)
        blocks[i] = block_new(size, i);
    size_t peak = process_rss();
    for (size_t i = 0; i < count; i++)
        if (keep == 0 || i % keep != 0)
            block_delete(blocks[i]);
    check_trim();
    size_t after = process_rss();
    CHECK_OURS(after <= before || after - before <= (peak - before) * (100 - percent) / 100,
               "blocks of %zu, one in %zu kept: RSS %zu MiB -> %zu MiB -> %zu MiB", size, keep,
               before / MIB, peak / MIB, after / MIB);
    for (size_t i = 0; keep != 0 && i < count; i += keep)
        block_delete(blocks[i]);
    for (size_t i = 0; i < count; i++)
        blocks[i] = block_new(size, i + 7);
    for (size_t i = 0; i < count; i++)
        block_delete(blocks[i]);
    free(blocks);
}

int main(void) {
    world_begin(60);
    trim_after(64, 0, 80);
    trim_after(256, 256, 50);
    trim_after(1000, 0, 80);
    trim_after(20000, 0, 80);
    trim_after(700000, 0, 80);
    trim_after(5 << 20, 0, 80);
    check_trim();
    return 0;
}
