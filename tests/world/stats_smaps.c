// Statistics against the kernel: what hak_stats_get() says to be resident is what
// /proc/self/smaps_rollup says has come, within 2 %, with blocks of all kinds, after frees here and
// by another thread, and after a trim. Lazily freed memory is told apart.
#include "company.h"
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

// Both at a time when the purger gave nothing back between them.
static size_t rss_beside(hak_stats_t *now) {
    enum { TRIES = 2000 };
    for (int i = 0; i < TRIES; i++) {
        usleep(i == 0 ? 0 : 20000);
        const hak_stats_t first = statistics();
        const size_t rss = smaps_rollup("Rss:");
        *now = statistics();
        if (now->purge_bytes == first.purge_bytes && now->resident == first.resident)
            return rss;
    }
    CHECK(false, "the purger does not come to rest");
    return 0;
}

// Rss of the kernel's and resident of ours have grown by the same, within 2 %.
static void check_growth(const char *when, size_t rss_before, const hak_stats_t *before) {
    hak_stats_t now;
    size_t kernel = rss_beside(&now) - rss_before, ours = now.resident - before->resident;
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

// What the purger has given back lazily is lazy and not dirty, as far as the kernel has it still.
static void lazily_freed(size_t rss, const hak_stats_t *before) {
    hak_stats_t now = statistics();
    for (int tenths = 0, quiet = 0; tenths < 150 && quiet < 12; tenths++) {
        uint64_t purged = now.purge_bytes;
        usleep(100000);
        now = statistics();
        quiet = purged != 0 && now.purge_bytes == purged ? quiet + 1 : 0;
    }
    size_t kernel = smaps_rollup("LazyFree:"), ours = now.lazy;
    size_t apart = kernel > ours ? kernel - ours : ours - kernel;
    printf("lazily freed: %zu KiB by the kernel, %zu KiB by hakmem\n", kernel >> 10, ours >> 10);
    CHECK(kernel > 20 * MIB, "nothing is freed lazily: %zu KiB", kernel >> 10);
    // The kernel counts a page once a batch of the processor that was told is full, and a page may be a large one.
    CHECK(apart <= kernel / 50 + 2 * MIB, "%zu KiB apart", apart >> 10);
    CHECK(now.purge_runs > 0 && now.purge_bytes >= now.lazy, "purges are not counted");
    check_growth("lazily freed", rss, before);
}

// stats_smaps [lean]: lean is run with HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE.
int main(int argc, char **argv) {
    (void)argv;
    world_begin(60);
    setvbuf(stdout, NULL, _IOLBF, 0); // a failed check ends the process at once
    if (smaps_rollup("Rss:") == 0)
        world_skip("/proc/self/smaps_rollup cannot be read");
    have_company(); // else what is scattered stays
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
    if (argc > 1) {
        lazily_freed(rss, &before);
        return 0;
    }
    malloc_trim(0);
    check_growth("trimmed", rss, &before);
    hak_stats_t trimmed = statistics();
    free_every(1);
    CHECK(statistics().allocated < trimmed.allocated / 10, "all is freed");
    return 0;
}
