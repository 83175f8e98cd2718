// calloc: zero contents, above all on memory that was dirty before, up to what malloc_usable_size says, as with the C library: programs
// that make a block larger clear what lies beyond that. Of blocks above 32 KiB only to the end of a page, and what lies behind that
// gets no memory. And products that overflow.
#include "process.h"

#include <malloc.h>
#include <stdint.h>

static const size_t sizes[] = {
    1,       7,       8,      16,    24,    100,   256,    1024,   1040,    2000,
    4096,    5000,    16384,  32768, 32769, 65536, 100000, 262144, 1 << 20, (1 << 20) + 4096,
    2 << 20, 3 << 20, 8 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = 400 };

static size_t first_nonzero(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return i;
    return n;
}

static void check_zero(unsigned char *block, size_t n, const char *how) {
    CHECK(block != NULL, "%s of %zu bytes failed", how, n);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), usable = malloc_usable_size(block);
    const size_t pages = (((uintptr_t)block + n + page - 1) & ~(page - 1)) - (uintptr_t)block;
    const size_t zero = usable > 32768 && pages < usable ? pages : usable;
    const size_t at = first_nonzero(block, zero);
    CHECK(usable >= n && at == zero, "%s of %zu bytes: byte %zu of %zu is 0x%02x", how, n, at, zero,
          block[at]);
}

// Each round frees dirty blocks, so the next round's calloc gets used memory back.
static void dirty_memory_comes_back_zero(size_t n) {
    static unsigned char *blocks[BLOCKS];
    size_t count = n > 100000 ? 6 : n > 4096 ? 40 : BLOCKS;
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < count; i++) {
            blocks[i] = i % 3 == 0   ? calloc(1, n)
                        : i % 3 == 1 ? calloc(n, 1)
                                     : calloc(n / 8 + 1, 8);
            check_zero(blocks[i], n, "calloc");
        }
        for (size_t i = 0; i < count; i++)
            memset(blocks[i], 0xA5, malloc_usable_size(blocks[i]));
        for (size_t i = 0; i < count; i++)
            free(blocks[round % 2 ? i : count - 1 - i]);
        if (round == 2)
            malloc_trim(0); // lazily freed memory may be dirty or zero: calloc must not guess
    }
}

// A freed large run that is reused for smaller blocks, and the other way round.
static void dirty_runs_are_cut_up(void) {
    for (size_t i = 0; i < SIZES; i++) {
        unsigned char *large = malloc(sizes[SIZES - 1 - i]);
        memset(large, 0x5A, sizes[SIZES - 1 - i]);
        free(large);
        unsigned char *block = calloc(1, sizes[i]);
        check_zero(block, sizes[i], "calloc after a larger free");
        memset(block, 0x77, sizes[i]);
        free(block);
    }
}

static void nothing_behind_gets_memory(void) {
    enum { BYTES = 33000, MANY = 200 };
    static char *blocks[MANY];
    for (int i = 0; i < MANY; i++) {
        CHECK((blocks[i] = malloc(BYTES)) != NULL, "malloc");
        memset(blocks[i], 1, BYTES);
    }
    const size_t before = process_rss();
    for (int i = 0; i < MANY; i++)
        free(blocks[i]);
    for (int i = 0; i < MANY; i++)
        CHECK((blocks[i] = calloc(1, BYTES)) != NULL, "calloc");
    const size_t now = process_rss();
    CHECK(now <= before + MIB, "%zu KiB more in the same memory", (now - before) >> 10);
    for (int i = 0; i < MANY; i++)
        free(blocks[i]);
}

static void overflow_is_refused(void) {
    static const size_t pairs[][2] = {
        {SIZE_MAX, SIZE_MAX},    {SIZE_MAX / 2, 3},
        {3, SIZE_MAX / 2},       {(size_t)1 << 33, (size_t)1 << 33},
        {SIZE_MAX / 16 + 1, 16}, {16, SIZE_MAX / 16 + 1},
        {SIZE_MAX, 2},           {(size_t)1 << 32, (size_t)1 << 32},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        errno = 0;
        void *block = calloc(pairs[i][0], pairs[i][1]);
        CHECK(block == NULL, "calloc(%zu, %zu) = %p", pairs[i][0], pairs[i][1], block);
        CHECK(errno == ENOMEM, "calloc(%zu, %zu): errno %d", pairs[i][0], pairs[i][1], errno);
    }
}

static void zero_products_are_unique(void) {
    volatile size_t most = SIZE_MAX;
    void *a = calloc(0, 16), *b = calloc(16, 0), *c = calloc(0, 0), *d = calloc(most, 0);
    CHECK(a && b && c && d && a != b && b != c && a != c && d != a && d != b && d != c,
          "calloc of nothing: %p %p %p %p", a, b, c, d);
    free(a);
    free(b);
    free(c);
    free(d);
}

int main(void) {
    world_begin(60);
    nothing_behind_gets_memory();
    overflow_is_refused();
    zero_products_are_unique();
    for (size_t i = 0; i < SIZES; i++)
        dirty_memory_comes_back_zero(sizes[i]);
    dirty_runs_are_cut_up();
    return 0;
}
