// malloc, free and malloc_usable_size: uniqueness, alignment, errno, and every usable byte
// writable.
#include "pattern.h"

#include <malloc.h>

static const size_t sizes[] = {
    0,     1,     8,     15,    16,     17,     100,     1024,          1025,    1040,    4096,
    32767, 32768, 32769, 65536, 100000, 262144, 1 << 20, (1 << 20) + 1, 2 << 20, 5 << 20, 33 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, ERRNO_MARK = 12345 };

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
    return x < y ? -1 : x > y;
}

static void zero_sized_blocks_are_unique(void) {
    enum { N = 5000 };
    static void *blocks[N];
    for (size_t i = 0; i < N; i++) {
        blocks[i] = malloc(i % 2); // zero and one: they may share a size class, never an address
        CHECK(blocks[i] != NULL, "malloc(%zu) returned NULL", i % 2);
    }
    qsort(blocks, N, sizeof *blocks, by_address);
    for (size_t i = 1; i < N; i++)
        CHECK(blocks[i] != blocks[i - 1], "two live blocks at %p", blocks[i]);
    for (size_t i = 0; i < N; i++)
        free(blocks[i]);
    free(NULL);
}

static void check_alignment(size_t n) {
    void *first = malloc(n), *second = malloc(n);
    size_t align = n >= 16 ? 16 : 8;
    CHECK((uintptr_t)first % align == 0, "malloc(%zu) = %p, not %zu-byte aligned", n, first, align);
    CHECK((uintptr_t)second % align == 0, "malloc(%zu) = %p", n, second);
    void *zeroed = calloc(1, n);
    CHECK((uintptr_t)zeroed % align == 0, "calloc(1, %zu) = %p", n, zeroed);
    first = realloc(first, n + 1);
    CHECK((uintptr_t)first % align == 0, "realloc(p, %zu) = %p", n + 1, first);
    free(first);
    free(second);
    free(zeroed);
}

static void blocks_are_aligned(void) {
    for (size_t n = 0; n <= 5000; n++)
        check_alignment(n);
    for (size_t i = 0; i < SIZES; i++)
        check_alignment(sizes[i]);
}

static void success_leaves_errno_alone(void) {
    for (size_t i = 0; i < SIZES; i++) {
        errno = ERRNO_MARK;
        void *block = malloc(sizes[i]);
        CHECK(errno == ERRNO_MARK, "malloc(%zu) set errno to %d", sizes[i], errno);
        block = realloc(block, sizes[i] + 5000);
        CHECK(errno == ERRNO_MARK, "realloc(p, %zu) set errno to %d", sizes[i] + 5000, errno);
        CHECK(malloc_usable_size(block) >= sizes[i] + 5000, "realloc(p, %zu)", sizes[i] + 5000);
        CHECK(errno == ERRNO_MARK, "malloc_usable_size set errno to %d", errno);
        void *zeroed = calloc(1, sizes[i]);
        CHECK(errno == ERRNO_MARK, "calloc(1, %zu) set errno to %d", sizes[i], errno);
        free(block);
        free(zeroed);
        CHECK(errno == ERRNO_MARK, "free of %zu bytes set errno to %d", sizes[i], errno);
    }
}

// Neighbours carry patterns of their own, so a usable size that is too large shows up there.
static void usable_bytes_are_ours(size_t n) {
    enum { N = 3 };
    unsigned char *blocks[N];
    size_t usable[N];
    for (size_t i = 0; i < N; i++) {
        blocks[i] = malloc(n);
        CHECK(blocks[i] != NULL, "malloc(%zu)", n);
        usable[i] = malloc_usable_size(blocks[i]);
        CHECK(usable[i] >= n, "malloc_usable_size(malloc(%zu)) = %zu", n, usable[i]);
        CHECK_OURS(usable[i] <= n + n / 4 + 65536, "malloc(%zu) took %zu bytes", n, usable[i]);
        pattern_fill(blocks[i], usable[i], i);
    }
    for (size_t i = 0; i < N; i++) {
        CHECK_PATTERN(blocks[i], usable[i], i);
        CHECK(malloc_usable_size(blocks[i]) == usable[i], "usable size of %zu changed", n);
    }
    blocks[1] = realloc(blocks[1], usable[1] + 100000);
    CHECK_PATTERN(blocks[1], usable[1], 1);
    for (size_t i = 0; i < N; i++)
        free(blocks[i]);
}

int main(void) {
    world_begin(60);
    zero_sized_blocks_are_unique();
    blocks_are_aligned();
    success_leaves_errno_alone();
    for (size_t n = 0; n < 2000; n++)
        usable_bytes_are_ours(n);
    for (size_t i = 0; i < SIZES; i++)
        usable_bytes_are_ours(sizes[i]);
    CHECK(malloc_usable_size(NULL) == 0, "malloc_usable_size(NULL)");
    return 0;
}
