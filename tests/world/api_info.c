// The rest of the family: statistics that move with the heap, mallopt, C23's sized free, cfree.
#include "pattern.h"
#include "process.h"

#include <malloc.h>

static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// The old interface counts in int: 64 MiB must still show.
static size_t in_use_int(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo info = mallinfo();
#pragma GCC diagnostic pop
    return (size_t)(unsigned)info.uordblks + (size_t)(unsigned)info.hblkhd;
}

static void check_moved(size_t before, size_t during, size_t after, const char *what) {
    CHECK_OURS(during >= before + 63 * MIB, "%s: %zu KiB in use with 64 MiB more than %zu KiB",
               what, during >> 10, before >> 10);
    CHECK_OURS(after <= before + 6 * MIB, "%s: %zu KiB in use after free, %zu KiB before", what,
               after >> 10, before >> 10);
}

static void numbers_move_with_the_heap(size_t block_size) {
    size_t count = 64 * MIB / block_size;
    void **blocks = malloc(count * sizeof *blocks);
    size_t before = in_use(), before_int = in_use_int();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(block_size);
        memset(blocks[i], 1, block_size);
    }
    size_t during = in_use(), during_int = in_use_int();
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    size_t after = in_use(), after_int = in_use_int();
    check_moved(before, during, after, "mallinfo2");
    check_moved(before_int, during_int, after_int, "mallinfo");
    free(blocks);
}

static void malloc_info_writes_xml(void) {
    char *text = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&text, &len); // a stream that itself allocates while we print
    CHECK(memory != NULL, "open_memstream");
    CHECK(malloc_info(0, memory) == 0, "malloc_info(0, f): errno %d", errno);
    fclose(memory);
    CHECK(strncmp(text, "<malloc", 7) == 0, "malloc_info begins with %.20s", text);
    CHECK(strstr(text, "</malloc>") != NULL, "malloc_info does not close its element");
    free(text);
    FILE *sink = fopen("/dev/null", "w");
    CHECK(sink != NULL, "/dev/null");
    CHECK(malloc_info(1, sink) != 0, "malloc_info accepted options it does not know");
    fclose(sink);
}

static void malloc_stats_prints_to_stderr(void) {
    int ends[2], saved = dup(STDERR_FILENO);
    CHECK(saved >= 0 && pipe(ends) == 0, "pipe");
    dup2(ends[1], STDERR_FILENO);
    malloc_stats();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    char text[64];
    ssize_t got = read(ends[0], text, sizeof text);
    close(ends[0]);
    CHECK(got > 0, "malloc_stats printed nothing to stderr");
}

static void mallopt_answers(void) {
    static const int known[] = {M_MXFAST,   M_TRIM_THRESHOLD, M_TOP_PAD,   M_MMAP_THRESHOLD,
                                M_MMAP_MAX, M_CHECK_ACTION,   M_ARENA_MAX, M_ARENA_TEST};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int answer = mallopt(known[i], 64);
        CHECK(answer == 0 || answer == 1, "mallopt(%d, 64) = %d", known[i], answer);
    }
    CHECK_OURS(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1, "programs take 0 for a fatal error");
    block_delete(block_new(100000, 1));
}

static void sized_free_frees(void) {
    void (*free_sized_fn)(void *, size_t);
    void (*free_aligned_fn)(void *, size_t, size_t);
    void (*cfree_fn)(void *);
    WORLD_FIND(free_sized_fn, "free_sized");
    WORLD_FIND(free_aligned_fn, "free_aligned_sized");
    WORLD_FIND(cfree_fn, "cfree");
    CHECK_OURS(free_sized_fn && free_aligned_fn && cfree_fn,
               "free_sized, free_aligned_sized, cfree");
    size_t before = process_rss();
    for (size_t i = 0; i < 300; i++)
        for (size_t n = 1; n <= 4 * MIB; n = n * 3 + 1) {
            if (free_sized_fn != NULL)
                free_sized_fn(memset(malloc(n), 1, n < 4096 ? n : 4096), n);
            if (free_aligned_fn != NULL)
                free_aligned_fn(memset(aligned_alloc(256, n), 1, n < 4096 ? n : 4096), 256, n);
            if (cfree_fn != NULL)
                cfree_fn(calloc(1, n));
        }
    if (free_sized_fn != NULL)
        free_sized_fn(NULL, 0);
    size_t after = process_rss();
    CHECK(after < before + 64 * MIB, "RSS grew from %zu to %zu MiB", before / MIB, after / MIB);
}

int main(void) {
    world_begin(60);
    numbers_move_with_the_heap(64 * MIB);
    numbers_move_with_the_heap(MIB);
    numbers_move_with_the_heap(5000);
    numbers_move_with_the_heap(64);
    malloc_info_writes_xml();
    malloc_stats_prints_to_stderr();
    mallopt_answers();
    sized_free_frees();
    return 0;
}
