/* The hoard: memory of freed fenced blocks, moved away from their addresses, serves the next blocks. */
#include "backend/hoard.h"
#include "backend/limit.h"
#include "backend/mappings.h"
#include "faults.h"
#include "guard/header.h"
#include "guard/tail.h"
#include "os/os.h"
#include "stats_now.h"

#include <pthread.h>
#include <sys/resource.h>

static long faults_so_far(void) {
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

static bool can_move_away(void) {
    const size_t page = hk_os_page_size();
    char *from = hk_os_map(page, page), *to = hk_os_move_away(from, page);
    hk_os_unmap(from, page);
    if (to != NULL)
        hk_os_unmap(to, page);
    return to != NULL;
}

/* Whether the freed block is inaccessible, or `open`: a block whose size comes again keeps its memory and
 * may stay writable, which depends on time. */
static bool cannot_be_touched(const char *freed) {
    return !hk_os_readable(freed) || hk_header_at(freed)->open;
}

/* Memory of freed large blocks must serve the next ones, whatever their sizes: few page faults. Their
 * addresses must stay unused and inaccessible for a while, and new blocks must read as zero. */
static void memory_serves_elsewhere(void) {
    static const struct {
        size_t least, range;
    } sizes[] = {{3 * HK_MIB, 1}, {600 * HK_KIB, 700 * HK_KIB}, {3 * HK_MIB, 4 * HK_MIB}};
    enum { BLOCKS = 128, LATE = 3 };
    const size_t page = hk_os_page_size();
    for (unsigned k = 0; k < sizeof sizes / sizeof sizes[0] && can_move_away(); k++) {
        char *freed[BLOCKS] = {NULL};
        size_t pages = 0;
        unsigned closed = 0;
        hak_trim();
        const long before = faults_so_far();
        for (unsigned i = 0, state = 1; i < BLOCKS; i++) {
            state = state * 1103515245 + 12345;
            const size_t n = sizes[k].least + state / 65536 * 67 % sizes[k].range;
            char *p = hak_malloc(n);
            CHECK(p != NULL && hk_map_kind(p) == HK_KIND_FENCED && hk_is_zero(p, n / 16 * 16));
            CHECK(!hk_os_readable((char *)hk_align_up((uintptr_t)p + n, page)));
            memset(p, 0xa5, n);
            pages += n / page;
            freed[i] = p;
            hak_free(p);
            for (unsigned late = 0; late < LATE && late <= i; late++)
                CHECK(cannot_be_touched(freed[i - late]) || hk_map_kind(p) != HK_KIND_FENCED);
            closed += !hk_os_readable(p);
        }
        CHECK(closed >= BLOCKS / 2);
#if !defined(__SANITIZE_THREAD__) &&                                                               \
    !defined(__SANITIZE_ADDRESS__) /* these have shadow memory for each address */
        CHECK((size_t)(faults_so_far() - before) < pages / 2);
#else
        (void)before;
#endif
    }
    hak_trim();
}

/* Memory in the hoard must count against the bound on kept memory. */
static void what_is_moved_is_bounded(void) {
    enum { BLOCKS = 20, BYTES = 3 * HK_MIB, MOST = 13 * HK_MIB };
    static void *blocks[BLOCKS];
    hak_trim();
    const size_t kept = hk_singles().kept;
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = hak_malloc(BYTES);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    CHECK(!can_move_away() || hk_singles().kept >= kept + BYTES);
    CHECK(hk_singles().kept <= kept + MOST);
    hak_trim();
    CHECK_EQ(hk_singles().kept, kept);
}

/* Memory in the hoard must count as resident in the statistics until it is trimmed. */
static void what_is_moved_is_resident(void) {
    enum { BLOCKS = 8, BYTES = 3 * HK_MIB, MOVED = 3, LITTLE = HK_MIB / 2 };
    static void *blocks[BLOCKS];
    hak_trim();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = touched(BYTES + i * 8192);
    const hak_stats_t before = now();
    for (unsigned i = 0; i < MOVED; i++)
        hak_free(blocks[i]);
    CHECK(hk_hoard_bytes() >= MOVED * BYTES);
    const hak_stats_t after = now();
    check_equations(&after);
    CHECK(after.resident + LITTLE >= before.resident);
    for (unsigned i = MOVED; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_trim();
    CHECK_EQ(hk_hoard_bytes(), 0);
    CHECK(now().resident + BLOCKS * BYTES <= before.resident + LITTLE);
}

enum { THREADS = 4, ROUNDS = 150, IN_HAND = 3 };

/* Allocates and frees blocks of sizes that hardly repeat; half of them are written to only in part. Fails
 * if another thread writes to one. */
static void *take_and_give(void *first) {
    char *mine[IN_HAND] = {NULL};
    size_t bytes[IN_HAND] = {0};
    uint32_t state = (uint32_t)(uintptr_t)first;
    for (unsigned i = 0; i < ROUNDS; i++) {
        state = state * 1103515245u + 12345;
        const unsigned k = i % IN_HAND;
        for (size_t at = 0; mine[k] != NULL && at < bytes[k]; at += 4096)
            CHECK_EQ(mine[k][at], (char)(bytes[k] / 16));
        hak_free(mine[k]);
        const size_t n = HK_HOARD_FROM + (state >> 8) % (2 * HK_MIB) / 16 * 16;
        bytes[k] = i % 2 == 0 ? n : n / 4;
        mine[k] = hak_malloc(n);
        CHECK(mine[k] != NULL && hk_is_zero(mine[k], n));
        memset(mine[k], (int)(bytes[k] / 16), bytes[k]);
    }
    for (unsigned k = 0; k < IN_HAND; k++)
        hak_free(mine[k]);
    return NULL;
}

static void in_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    while (hak_trim() != 0)
        continue;
}

/* Threads must never get the same piece of memory, and in the end all pieces must be gone, and the
 * accounts as before. */
static void pieces_have_one_owner(void) {
    hak_trim();
    const size_t kept = hk_singles().kept;
    in_threads(); /* creates the threads' records, which stay */
    const size_t held = held_but_headers();
    in_threads();
    CHECK_EQ(hk_hoard_bytes(), 0);
    CHECK_EQ(hk_singles().kept, kept);
    CHECK_EQ(held_but_headers(), held);
}

#if HK_DEBUG
/* The system refuses one of the calls that move memory, for an allocated or a freed block. A block that
 * is got must read as zero, and nothing may be lost. */
static void refused_half_way(void) {
    enum { MOST_CALLS = 14, BLOCKS = 6, BYTES = 3 * HK_MIB };
    char *blocks[BLOCKS];
    size_t held = 0;
    for (long calls = -1; calls <= 2 * MOST_CALLS; calls++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            CHECK((blocks[i] = touched(BYTES + i * 8192)) != NULL);
        for (unsigned i = 0; i < BLOCKS; i++) {
            hk_os_fail_after(i == 0 && calls >= MOST_CALLS ? calls - MOST_CALLS : -1);
            hak_free(blocks[i]);
            hk_os_fail_after(-1);
        }
        hk_os_fail_after(calls < MOST_CALLS ? calls : -1);
        char *p = hak_malloc(BYTES + 12345 * 16);
        hk_os_fail_after(-1);
        if (p != NULL)
            CHECK(hk_is_zero(p, BYTES + 12345 * 16));
        hak_free(p);
        for (unsigned i = 0; i < 2 * HK_PATIENCE && hak_trim() != 0; i++)
            continue;
        CHECK_EQ(hk_hoard_bytes(), 0);
        CHECK(calls <= 0 || held_but_headers() <= held);
        held = held_but_headers();
    }
}
#else
static void refused_half_way(void) {}
#endif

int main(void) {
    guard();
    if (!hk_guard->fences)
        return unit_skip("OS pages are too large for fences");
    memory_serves_elsewhere();
    what_is_moved_is_bounded();
    if (can_move_away())
        what_is_moved_is_resident();
    pieces_have_one_owner();
    refused_half_way();
}
