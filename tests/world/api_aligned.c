// aligned_alloc, posix_memalign, memalign, valloc, pvalloc: every power of two from 8 to 16 MiB.
#include "pattern.h"
#include "process.h"

#include <malloc.h>

enum { ERRNO_MARK = 12345, MAX_ALIGN_SHIFT = 24 };

static void *by_posix_memalign(size_t align, size_t n) {
    void *block = NULL;
    int err = posix_memalign(&block, align, n);
    CHECK(err == 0, "posix_memalign(%zu, %zu) = %d", align, n, err);
    return block;
}

static const struct {
    const char *name;
    void *(*call)(size_t align, size_t n);
} entries[] = {{"aligned_alloc", aligned_alloc},
               {"memalign", memalign},
               {"posix_memalign", by_posix_memalign}};
enum { ENTRIES = sizeof entries / sizeof *entries };

typedef struct {
    unsigned char *memory;
    size_t n;
    uint64_t seed;
} live_t;

// Of a big block both ends will do: overlap starts there, and the pages between stay untouched.
static size_t marked(const live_t *live) { return live->n < 100000 ? live->n / 2 : 50000; }

static void mark(const live_t *live) {
    pattern_fill(live->memory, marked(live), live->seed);
    pattern_fill(live->memory + live->n - marked(live), marked(live), live->seed + 1);
}

static void check_mark(const live_t *live) {
    CHECK_PATTERN(live->memory, marked(live), live->seed);
    CHECK_PATTERN(live->memory + live->n - marked(live), marked(live), live->seed + 1);
}

static live_t allocate(size_t entry, size_t align, size_t n, uint64_t seed) {
    const char *name = entries[entry].name;
    errno = ERRNO_MARK;
    live_t live = {.memory = entries[entry].call(align, n), .n = n, .seed = seed};
    CHECK(live.memory != NULL, "%s(%zu, %zu) returned NULL", name, align, n);
    CHECK(errno == ERRNO_MARK, "%s(%zu, %zu) set errno to %d", name, align, n, errno);
    if (n > 0)
        CHECK((uintptr_t)live.memory % align == 0, "%s(%zu, %zu) = %p", name, align, n,
              (void *)live.memory);
    else
        CHECK_OURS((uintptr_t)live.memory % align == 0, "%s(%zu, 0) = %p", name, align,
                   (void *)live.memory);
    CHECK(malloc_usable_size(live.memory) >= n, "%s(%zu, %zu): usable %zu", name, align, n,
          malloc_usable_size(live.memory));
    mark(&live);
    return live;
}

// All blocks of one alignment live together, so that one that overlaps another is seen.
static void check_alignment(size_t align, uint64_t *rng) {
    const size_t sizes[] = {
        0,     1,         24,        align / 2,           align - 1,
        align, align + 1, align * 2, rng_size(rng, 5000), rng_size(rng, 200000)};
    enum { N = sizeof sizes / sizeof *sizes * ENTRIES };
    live_t live[N];
    for (size_t i = 0; i < N; i++)
        live[i] = allocate(i % ENTRIES, align, sizes[i / ENTRIES], i * 1000);
    for (size_t left = N; left > 0; left--) {
        size_t pick = rng_below(rng, left);
        check_mark(&live[pick]);
        errno = ERRNO_MARK;
        free(live[pick].memory);
        CHECK(errno == ERRNO_MARK, "free of an aligned block set errno to %d", errno);
        live[pick] = live[left - 1];
    }
}

static void page_aligned_entries(void) {
    size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t n = 1; n < 300000; n += n / 3 + 1) {
        unsigned char *v = valloc(n), *p = pvalloc(n);
        CHECK(v != NULL && (uintptr_t)v % os_page == 0, "valloc(%zu) = %p", n, (void *)v);
        CHECK(p != NULL && (uintptr_t)p % os_page == 0, "pvalloc(%zu) = %p", n, (void *)p);
        size_t whole = (n + os_page - 1) / os_page * os_page;
        CHECK(malloc_usable_size(p) >= whole, "pvalloc(%zu): usable %zu", n, malloc_usable_size(p));
        memset(v, 1, n);
        memset(p, 2, whole);
        free(v);
        free(p);
    }
}

static void check_refused(size_t align, size_t n, int expected) {
    void *const untouched = (void *)(uintptr_t)0x5a5a5a50;
    void *block = untouched;
    errno = ERRNO_MARK;
    int err = posix_memalign(&block, align, n);
    CHECK(err == expected, "posix_memalign(%zu, %zu) = %d, expected %d", align, n, err, expected);
    CHECK(block == untouched, "posix_memalign(%zu, %zu) failed and stored %p", align, n, block);
    CHECK_OURS(errno == ERRNO_MARK, "posix_memalign(%zu, %zu) set errno to %d", align, n, errno);
}

static void posix_memalign_refuses(void) {
    static const size_t bad[] = {0, 1, 2, 4, 3, 7, 12, 24, 40, 1000, (1 << 20) + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_refused(bad[i], 100, EINVAL);
    for (size_t align = 8; align <= (size_t)1 << MAX_ALIGN_SHIFT; align *= 2) {
        check_refused(align, SIZE_MAX, ENOMEM);
        check_refused(align, SIZE_MAX - align, ENOMEM);
        check_refused(align, PTRDIFF_MAX, ENOMEM);
    }
    check_refused((size_t)1 << 62, (size_t)1 << 61, ENOMEM);
}

// An alignment that no machine has memory for is a lack of memory, as in the C library; above the
// largest power of two there is none to round up to.
static void absurd_alignments(void) {
    static const size_t shifts[] = {47, 48, 62, 63};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (size_t n = 0; n <= 200; n += 100)
            for (size_t entry = 0; entry < 2; entry++) {
                size_t align = (size_t)1 << shifts[i];
                errno = 0;
                void *block = entries[entry].call(align, n);
                CHECK(block == NULL && errno == ENOMEM, "%s(2^%zu, %zu) = %p, errno %d",
                      entries[entry].name, shifts[i], n, block, errno);
                check_refused(align, n, ENOMEM);
            }
    for (size_t shift = 0; shift < 63; shift++) {
        size_t align = ((size_t)1 << 63) + ((size_t)1 << shift);
        errno = 0;
        void *block = memalign(align, 100);
        CHECK(block == NULL && errno == EINVAL, "memalign(%zu, 100) = %p, errno %d", align, block,
              errno);
        errno = 0;
        block = aligned_alloc(align, 100);
        CHECK(block == NULL && errno == EINVAL, "aligned_alloc(%zu, 100) = %p, errno %d", align,
              block, errno);
        check_refused(align, 100, EINVAL);
    }
}

// What other alignments do is not specified, except that the answer is NULL or a good block.
static void odd_alignments_do_no_harm(void) {
    for (size_t align = 0; align < 200; align++)
        for (size_t entry = 0; entry < 2; entry++) {
            errno = 0;
            void *block = entries[entry].call(align, 100);
            CHECK(block != NULL || errno == EINVAL, "%s(%zu, 100): NULL with errno %d",
                  entries[entry].name, align, errno);
            if (block != NULL)
                memset(block, 1, 100);
            free(block);
        }
}

static void big_alignments_are_given_back(void) {
    size_t before = process_rss();
    for (int i = 0; i < 100; i++) {
        void *block = aligned_alloc(4 * MIB, 4 * MIB);
        CHECK(block != NULL && (uintptr_t)block % (4 * MIB) == 0, "aligned_alloc: %p", block);
        memset(block, 1, 4 * MIB);
        free(block);
    }
    size_t after = process_rss();
    CHECK(after < before + 64 * MIB, "RSS grew from %zu to %zu MiB", before / MIB, after / MIB);
}

int main(void) {
    world_begin(60);
    uint64_t rng = 42;
    for (size_t align = 8; align <= (size_t)1 << MAX_ALIGN_SHIFT; align *= 2)
        for (int round = 0; round < 3; round++)
            check_alignment(align, &rng);
    page_aligned_entries();
    posix_memalign_refuses();
    absurd_alignments();
    odd_alignments_do_no_harm();
    big_alignments_are_given_back();
    return 0;
}
