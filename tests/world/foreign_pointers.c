// Blocks of the C library's own allocator reach us from code that was bound before us or around
// us: free, realloc and malloc_usable_size must hand them back to where they came from.
#include "pattern.h"
#include "process.h"

#include <malloc.h>

static void *(*their_malloc)(size_t);
static void *(*their_memalign)(size_t, size_t);
static void (*their_free)(void *);

static void check_size(size_t n) {
    void *block = their_malloc(n);
    CHECK(block != NULL, "__libc_malloc(%zu)", n);
    CHECK(malloc_usable_size(block) >= n, "malloc_usable_size of a foreign block of %zu: %zu", n,
          malloc_usable_size(block));
    pattern_fill(block, n, n);
    errno = 4321;
    free(block);
    CHECK(errno == 4321, "free of a foreign block set errno to %d", errno);

    block = their_malloc(n);
    pattern_fill(block, n, n);
    block = realloc(block, n * 2 + 10);
    CHECK(block != NULL, "realloc of a foreign block to %zu", n * 2 + 10);
    CHECK_PATTERN(block, n, n);
    block = realloc(block, n / 2 + 1);
    CHECK_PATTERN(block, n / 2 + 1 < n ? n / 2 + 1 : n, n);
    free(block);

    block = their_malloc(n);
    pattern_fill(block, n, n);
    CHECK(realloc(block, PTRDIFF_MAX) == NULL, "realloc of a foreign block to PTRDIFF_MAX");
    CHECK_PATTERN(block, n, n);
    their_free(block);
    free(their_memalign(4096, n));
}

int main(void) {
    world_begin(60);
    WORLD_FIND(their_malloc, "__libc_malloc");
    WORLD_FIND(their_memalign, "__libc_memalign");
    WORLD_FIND(their_free, "__libc_free");
    if (their_malloc == NULL || their_memalign == NULL || their_free == NULL)
        world_skip("this C library does not show its own allocator");
    for (size_t n = 1; n < 20 * MIB; n = n * 3 / 2 + 1)
        check_size(n);
    size_t before = process_rss();
    for (int i = 0; i < 200; i++)
        free(memset(their_malloc(MIB), 1, MIB));
    size_t after = process_rss();
    CHECK(after < before + 32 * MIB, "foreign blocks leak: RSS %zu -> %zu MiB", before / MIB,
          after / MIB);
    return 0;
}
