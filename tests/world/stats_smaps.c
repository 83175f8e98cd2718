// Statistics against the kernel: what hak_stats_get() says to be resident is what
// /proc/self/smaps_rollup says has come, within 2 %, with blocks of all kinds, after frees here and
// by another thread, and after a trim. Lazily freed memory is told apart.
#include "process.h"
#include "statistics.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

enum { KINDS = 4, MOST = 300000 };

static const struct {
    size_t least, most, bytes; // sizes of blocks, and how much of them
} kinds[KINDS] = {
    {1, 1024, 100 * MIB},
    {1025, 32768, 60 * MIB},
    {32769, 2 * MIB, 60 * MIB},
    {2 * MIB + 1, 20 * MIB, 100 * MIB},
};

static void *blocks[MOST];
static size_t count;
static uint64_t state = 88172645463325252u;

static size_t chance_below(size_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static void allocate_all(void) {
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t sum = 0; sum < kinds[kind].bytes;) {
            size_t n = kinds[kind].least + chance_below(kinds[kind].most - kinds[kind].least + 1);
            CHECK(count < MOST, "more than %d blocks", MOST);
            char *p = malloc(n);
            CHECK(p != NULL, "malloc(%zu)", n);
            memset(p, 1, chance_below(4) != 0 ? n : n / 2); // some are not used to the end
            blocks[count++] = p;
            sum += n;
        }
}

static void free_every(size_t nth) {
    for (size_t i = 0; i < count; i += nth) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void *free_thirds(void *unused) {
    free_every(3);
    return unused;
}

// Rss of the kernel's and resident of ours have grown by the same, within 2 %.
static void check_growth(const char *when, size_t rss_before, const hak_stats_t *before) {
    hak_stats_t now = statistics();
    size_t kernel = smaps_rollup("Rss:") - rss_before, ours = now.resident - before->resident;
    size_t apart = kernel > ours ? kernel - ours : ours - kernel;
    printf("%s: %zu KiB by the kernel, %zu KiB by hakmem (%zu KiB dirty)\n", when, kernel >> 10,
           ours >> 10, (size_t)now.dirty >> 10);
    CHECK(kernel >= 20 * MIB, "%s: only %zu KiB have come", when, kernel >> 10);
    CHECK(apart * 50 <= kernel, "%s: %zu KiB apart", when, apart >> 10);
    CHECK(now.allocated <= now.active && now.active <= now.carved, "%s: sums", when);
    CHECK(now.dirty + now.lazy <= now.resident && now.resident <= now.mapped, "%s: parts", when);
    CHECK(now.peak_resident >= now.resident, "%s: %zu KiB peak", when,
          (size_t)now.peak_resident >> 10);
}

// A freed huge block stays resident in the region cache. Given back lazily, behind the allocator's
// back, it is lazy and not dirty, until it is touched.
static void lazily_freed(void) {
    size_t bytes = 16 * MIB;
    malloc_trim(0);
    char *p = malloc(bytes);
    memset(p, 1, bytes);
    free(p);
    hak_stats_t cached = statistics();
    CHECK(cached.cached >= bytes && cached.dirty >= bytes, "%zu KiB cached, %zu KiB dirty",
          (size_t)cached.cached >> 10, (size_t)cached.dirty >> 10);
    if (madvise(p, bytes, MADV_FREE) != 0) {
        world_say("note: MADV_FREE is refused, lazily freed memory is not tested");
        return;
    }
    hak_stats_t lazy = statistics();
    size_t kernel = smaps_rollup("LazyFree:");
    printf("lazily freed: %zu KiB by the kernel, %zu KiB by hakmem\n", kernel >> 10,
           (size_t)lazy.lazy >> 10);
    CHECK(lazy.lazy == kernel, "%zu KiB", (size_t)lazy.lazy >> 10);
    CHECK(lazy.lazy > bytes / 2, "%zu KiB", (size_t)lazy.lazy >> 10);
    CHECK(lazy.dirty + lazy.lazy == cached.dirty, "dirty %zu, lazy %zu, dirty before %zu",
          (size_t)lazy.dirty, (size_t)lazy.lazy, (size_t)cached.dirty);
    malloc_trim(0);
    CHECK(statistics().lazy == 0, "lazy after a trim");
}

int main(void) {
    world_begin(60);
    if (smaps_rollup("Rss:") == 0)
        world_skip("/proc/self/smaps_rollup cannot be read");
    free(malloc(1));
    memset(blocks, -1, sizeof blocks); // its memory is the test's, and there from here on
    size_t rss = smaps_rollup("Rss:");
    hak_stats_t before = statistics();
    allocate_all();
    check_growth("all allocated", rss, &before);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_thirds, NULL) == 0, "pthread_create");
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    check_growth("a third freed by a thread", rss, &before);
    free_every(2);
    check_growth("half of all freed", rss, &before);
    malloc_trim(0);
    check_growth("trimmed", rss, &before);
    hak_stats_t trimmed = statistics();
    free_every(1);
    lazily_freed();
    CHECK(statistics().allocated < trimmed.allocated / 10, "all is freed");
    return 0;
}
