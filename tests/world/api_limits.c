// Sizes that no machine has: every entry point answers NULL and ENOMEM, and the heap stays good.
#include "pattern.h"

#include <malloc.h>

static void *by_calloc_bytes(size_t n) { return calloc(n, 1); }
static void *by_calloc_one(size_t n) { return calloc(1, n); }
static void *by_realloc_null(size_t n) { return realloc(NULL, n); }
static void *by_reallocarray(size_t n) { return reallocarray(NULL, 1, n); }
static void *by_aligned_alloc(size_t n) { return aligned_alloc(64, n); }
static void *by_aligned_alloc_big(size_t n) { return aligned_alloc((size_t)2 << 20, n); }
static void *by_memalign_small(size_t n) { return memalign(8, n); }
static void *by_memalign(size_t n) { return memalign(4096, n); }

static void *by_posix_memalign(size_t n) {
    void *block = NULL;
    int err = posix_memalign(&block, 4096, n);
    if (err != 0)
        errno = err;
    return block;
}

static void *by_realloc(size_t n) {
    void *block = malloc(50);
    void *moved = realloc(block, n);
    if (moved == NULL)
        free(block);
    return moved;
}

static const struct {
    const char *name;
    void *(*call)(size_t n);
} entries[] = {
    {"malloc", malloc},
    {"calloc(n, 1)", by_calloc_bytes},
    {"calloc(1, n)", by_calloc_one},
    {"realloc(NULL, n)", by_realloc_null},
    {"realloc(p, n)", by_realloc},
    {"reallocarray", by_reallocarray},
    {"aligned_alloc(64, n)", by_aligned_alloc},
    {"aligned_alloc(2 MiB, n)", by_aligned_alloc_big},
    {"memalign(8, n)", by_memalign_small},
    {"memalign(4096, n)", by_memalign},
    {"posix_memalign", by_posix_memalign},
    {"valloc", valloc},
    {"pvalloc", pvalloc},
};

static void check_refused(size_t n) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        errno = 0;
        void *block = entries[i].call(n);
        CHECK(block == NULL, "%s with n = 0x%zx gave %p", entries[i].name, n, block);
        CHECK(errno == ENOMEM, "%s with n = 0x%zx: errno %d", entries[i].name, n, errno);
    }
}

int main(void) {
    world_begin(60);
    block_t *before[100];
    for (size_t i = 0; i < 100; i++)
        before[i] = block_new(i * 100, i);
    // Around each limit, where rounding up by a header, a page or a slice would wrap around.
    static const size_t limits[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)1 << 62, (size_t)1 << 48};
    static const size_t steps[] = {0,       1,       7,     8,       15,      16,
                                   17,      63,      64,    4095,    4096,    4097,
                                   65535,   65536,   65537, 1 << 20, 2 << 20, (2 << 20) + 1,
                                   4 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (size_t j = 0; j < sizeof steps / sizeof *steps; j++) {
            check_refused(limits[i] - steps[j]);
            if (limits[i] != SIZE_MAX)
                check_refused(limits[i] + steps[j]);
        }
    for (size_t i = 0; i < 100; i++)
        block_delete(before[i]);
    for (size_t i = 0; i < 1000; i++)
        block_delete(block_new(i * 50, i));
    return 0;
}
