// realloc and reallocarray: contents survive every change of size, and failure changes nothing.
#include "pattern.h"
#include "process.h"

#include <malloc.h>

static const size_t sizes[] = {1,      8,      16,      17,      100,     1024,
                               1040,   4096,   10000,   32768,   32769,   65536,
                               100000, 524288, 1 << 20, 2 << 20, 3 << 20, 12 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void *resize(void *block, size_t n) {
    void *moved = realloc(block, n);
    CHECK(moved != NULL, "realloc(p, %zu)", n);
    CHECK((uintptr_t)moved % (n >= 16 ? 16 : 8) == 0, "realloc(p, %zu) = %p", n, moved);
    CHECK(malloc_usable_size(moved) >= n, "realloc(p, %zu): usable %zu", n,
          malloc_usable_size(moved));
    return moved;
}

// A neighbour on each side: growing in place must not run into it.
static void there_and_back(size_t from, size_t to) {
    void *before = malloc(from);
    void *block = malloc(from);
    void *after = malloc(from);
    CHECK(before && block && after, "malloc(%zu)", from);
    size_t marked = smaller(from, 70000); // neighbours: enough to notice, cheap to check
    pattern_fill(before, marked, 1);
    pattern_fill(after, marked, 2);
    pattern_fill(block, from, 3);
    block = resize(block, to);
    CHECK_PATTERN(block, smaller(from, to), 3);
    pattern_fill(block, to, 4);
    block = resize(block, from);
    CHECK_PATTERN(block, smaller(from, to), 4);
    CHECK_PATTERN(before, marked, 1);
    CHECK_PATTERN(after, marked, 2);
    free(before);
    free(block);
    free(after);
}

static void growing_vectors_keep_their_elements(void) {
    enum { VECTORS = 4, LIMIT = 6 << 20 };
    unsigned char *vectors[VECTORS] = {NULL};
    size_t n = 1;
    for (size_t next = 1; next < LIMIT; n = next, next += next / 3 + 7)
        for (size_t v = 0; v < VECTORS; v++) {
            vectors[v] = resize(vectors[v], next);
            if (next > 1)
                CHECK_PATTERN(vectors[v], n, v);
            pattern_fill(vectors[v], next, v);
        }
    for (; n > 1; n /= 2)
        for (size_t v = 0; v < VECTORS; v++) {
            vectors[v] = resize(vectors[v], n / 2);
            CHECK_PATTERN(vectors[v], n / 2, v);
        }
    for (size_t v = 0; v < VECTORS; v++)
        free(vectors[v]);
}

// Through a pointer, because compilers take it that a block is gone once reallocarray has seen it.
static void *(*volatile resize_array)(void *, size_t, size_t) = reallocarray;

static void failure_keeps_the_block(void) {
    volatile size_t absurd = PTRDIFF_MAX, half = SIZE_MAX / 2;
    for (size_t i = 0; i < SIZES; i++) {
        void *block = malloc(sizes[i]);
        pattern_fill(block, sizes[i], i);
        errno = 0;
        CHECK(realloc(block, absurd) == NULL && errno == ENOMEM, "realloc(p, PTRDIFF_MAX): %d",
              errno);
        errno = 0;
        CHECK(resize_array(block, half, 3) == NULL && errno == ENOMEM, "reallocarray overflow: %d",
              errno);
        errno = 0;
        CHECK(resize_array(block, 3, half) == NULL && errno == ENOMEM, "reallocarray overflow: %d",
              errno);
        CHECK_PATTERN(block, sizes[i], i);
        free(block);
    }
}

// realloc(p, 0) may free and return NULL or return a block of no bytes; it must not leak either
// way.
static void shrinking_to_nothing_does_not_leak(void) {
    enum { ROUNDS = 600, SIZE = 1 << 20 };
    volatile size_t nothing = 0;
    size_t before = process_rss();
    for (int i = 0; i < ROUNDS; i++) {
        void *block = malloc(SIZE);
        memset(block, 1, SIZE);
        free(realloc(block, nothing));
    }
    for (int i = 0; i < ROUNDS * 100; i++)
        free(realloc(malloc(1000), nothing));
    size_t after = process_rss();
    CHECK(after < before + 100 * MIB, "RSS grew from %zu to %zu MiB", before / MIB, after / MIB);
}

static void arrays(void) {
    int *array = reallocarray(NULL, 1000, sizeof *array);
    CHECK(array != NULL, "reallocarray(NULL, 1000, 4)");
    pattern_fill(array, 4000, 9);
    array = reallocarray(array, 300000, sizeof *array);
    CHECK_PATTERN(array, 4000, 9);
    free(array);
}

static void aligned_blocks_can_be_resized(void) {
    for (size_t align = 32; align <= 1 << 20; align *= 8)
        for (size_t i = 0; i < SIZES; i++) {
            void *block = memalign(align, sizes[i]);
            pattern_fill(block, sizes[i], align);
            block = resize(block, sizes[i] * 2 + 1);
            CHECK_PATTERN(block, sizes[i], align);
            free(block);
        }
}

int main(void) {
    world_begin(60);
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; j < SIZES; j++)
            there_and_back(sizes[i], sizes[j]);
    growing_vectors_keep_their_elements();
    failure_keeps_the_block();
    shrinking_to_nothing_does_not_leak();
    arrays();
    aligned_blocks_can_be_resized();
    void *fresh = realloc(NULL, 77);
    CHECK(fresh != NULL, "realloc(NULL, 77)");
    free(fresh);
    return 0;
}
