/* Regions: which free range serves a request, joining, the cache's bound, gathering, growing and moving, and a system
 * that refuses. Giving back parts of one large range makes addresses predictable. */
#include "backend/region_own.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "backend/mappings.h"
#include "backend/pagemap.h"
#include "base/calls.h"
#include "base/counters.h"
#include "check.h"
#include "hakmem/hakmem.h"
#include "held.h"
#include "os/os.h"
#include "regions.h"

enum { UNITS = 16 };

typedef struct {
    size_t live, cached, maps, unmaps;
} region_stats_t;

static region_stats_t region_stats(void) {
    return (region_stats_t){hk_region_live(), hk_region_cached(), hk_counted(region_maps),
                            hk_counted(region_unmaps)};
}

static bool is_zero(const char *start, size_t bytes) {
    const uint64_t *words = (const uint64_t *)(const void *)start;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != 0)
            return false;
    return true;
}

static void fresh_memory(void) {
    start_empty(64 * HK_MIB);
    region_stats_t before = region_stats();
    size_t used = 99;
    hk_range_t r = take(3, &used);
    CHECK_EQ(used, 0);
    CHECK(is_zero(r.start, r.bytes));
    CHECK_EQ(hk_region_live() - before.live, r.bytes);
    CHECK_EQ(hk_counted(region_maps) - before.maps, 1);
    hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_INTERIOR);
    give(r.start, 3);
    CHECK_EQ(hk_region_live(), before.live);
    CHECK_EQ(hk_region_cached(), r.bytes);
    CHECK_EQ(hk_map_kind(r.start), HK_KIND_FREE);
    CHECK_EQ(hk_map_kind(r.start + r.bytes - 1), HK_KIND_FREE);
    CHECK_EQ(hk_region_trim(), r.bytes);
    CHECK_EQ(hk_region_cached(), 0);
    CHECK_EQ(hk_counted(region_unmaps) - before.unmaps, 1);
    CHECK_EQ(hk_map_kind(r.start), HK_KIND_FOREIGN);
    CHECK_EQ(hk_map_kind(r.start + r.bytes - 1), HK_KIND_FOREIGN);

    hk_range_t aligned;
    CHECK(try_take(1, 16 * HK_UNIT, &aligned, &used));
    CHECK_EQ((uintptr_t)aligned.start % (16 * HK_UNIT), 0);
    hk_region_give(aligned);
}

static void best_fit_and_joins(void) {
    start_empty(64 * HK_MIB);
    size_t used;
    hk_range_t all = take(UNITS, &used);
    char *u = all.start;
    give(u + 1 * HK_UNIT, 2);
    give(u + 4 * HK_UNIT, 1);
    give(u + 6 * HK_UNIT, 3);
    size_t maps = hk_counted(region_maps);
    CHECK(take(1, &used).start == u + 4 * HK_UNIT);
    CHECK_EQ(used, HK_UNIT);
    CHECK(take(2, &used).start == u + 1 * HK_UNIT);
    CHECK(take(1, &used).start == u + 6 * HK_UNIT); /* the rest stays free */
    CHECK(take(2, &used).start == u + 7 * HK_UNIT);
    CHECK_EQ(hk_region_cached(), 0);

    give(u + 1 * HK_UNIT, 1); /* joins with the range behind, with the one before, and with both */
    give(u + 3 * HK_UNIT, 1);
    give(u + 2 * HK_UNIT, 1);
    give(u + 4 * HK_UNIT, 1);
    CHECK(take(4, &used).start == u + 1 * HK_UNIT);
    CHECK_EQ(hk_region_cached(), 0);

    /* alignment: only a part of the free range will do, both ends stay free */
    give(u, UNITS);
    hk_range_t aligned;
    CHECK(try_take(2, 8 * HK_UNIT, &aligned, &used));
    CHECK_EQ((uintptr_t)aligned.start % (8 * HK_UNIT), 0);
    CHECK(aligned.start >= u && aligned.start + aligned.bytes <= u + UNITS * HK_UNIT);
    CHECK_EQ(hk_region_cached(), (UNITS - 2) * HK_UNIT);
    hk_region_give(aligned);
    CHECK(take(UNITS, &used).start == u);
    give(u, UNITS);
    CHECK_EQ(hk_counted(region_maps), maps); /* all of this without the system */
}

/* cached <= max(limit, live / 4) after each free, also while live falls. start_empty() has cleared the breath. */
static void check_bound(size_t limit) {
    region_stats_t s = region_stats();
    CHECK(s.cached <= limit || s.cached <= s.live / 4);
}

/* Freed ranges beyond the cache's bound are unmapped at once. */
static void bound_is_respected(void) {
    enum { RANGES = 24 };
    static const size_t limits[] = {0, 4 * HK_MIB, 16 * HK_MIB};
    for (unsigned l = 0; l < 3; l++) {
        hk_range_t ranges[RANGES];
        size_t used;
        start_empty(limits[l]);
        for (unsigned i = 0; i < RANGES; i++)
            ranges[i] = take(1 + i % 4, &used);
        for (unsigned i = 0; i < RANGES; i++) {
            hk_region_give(ranges[i]);
            check_bound(limits[l]);
        }
    }
}

/* No free range is large enough, but several together are: their pages are moved into one. */
static void gathering(void) {
    for (size_t wanted = 2; wanted <= 12; wanted += 5) {
        start_empty(64 * HK_MIB);
        size_t used;
        hk_range_t all = take(UNITS, &used);
        mark(all.start, all.bytes, 0xaa);
        hk_map_set(all.start, all.bytes / HK_SLICE, HK_KIND_INTERIOR);
        for (size_t i = 1; i < UNITS; i += 2)
            give(all.start + i * HK_UNIT, 1);
        region_stats_t before = region_stats();
        size_t expected = hk_min(wanted, UNITS / 2);
        hk_range_t big = take(wanted, &used);
        CHECK_EQ(used, expected * HK_UNIT);
        CHECK(marked(big.start, used, 0xaa)); /* the pages themselves, not new ones */
        CHECK(is_zero(big.start + used, big.bytes - used));
        CHECK_EQ(hk_region_cached(), before.cached - used);
        CHECK_EQ(hk_region_live(), before.live + big.bytes);
        size_t foreign = 0;
        for (size_t i = 1; i < UNITS; i += 2)
            foreign += hk_map_kind(all.start + i * HK_UNIT) == HK_KIND_FOREIGN;
        CHECK_EQ(foreign, expected);
        for (size_t i = 0; i < UNITS; i += 2)
            CHECK(marked(all.start + i * HK_UNIT, HK_UNIT, 0xaa));
        mark(big.start, big.bytes, 0xbb); /* all of it can be written */
        hk_region_give(big);
        for (size_t i = 0; i < UNITS; i += 2)
            give(all.start + i * HK_UNIT, 1);
    }
}

static void extending(void) {
    start_empty(64 * HK_MIB);
    size_t used;
    hk_range_t all = take(8, &used), r = {.start = all.start, .bytes = 2 * HK_UNIT};
    hk_range_t guard = {.start = all.start + 6 * HK_UNIT, .bytes = 2 * HK_UNIT};
    CHECK(!hk_region_extend(&r, 3 * HK_UNIT)); /* the unit behind is in use */
    give(all.start + 2 * HK_UNIT, 4);
    size_t live = hk_region_live();
    CHECK(!hk_region_extend(&r, 7 * HK_UNIT));
    CHECK(!hk_region_extend(&r, 2 * HK_UNIT + hk_os_page_size())); /* in whole units only */
    CHECK_EQ(hk_region_cached(), 4 * HK_UNIT);
    CHECK(hk_region_extend(&r, 3 * HK_UNIT));
    CHECK(r.start == all.start && r.bytes == 3 * HK_UNIT);
    CHECK_EQ(hk_region_live(), live + HK_UNIT);
    CHECK_EQ(hk_region_cached(), 3 * HK_UNIT);
    CHECK(hk_region_extend(&r, 6 * HK_UNIT));
    CHECK_EQ(hk_region_cached(), 0);
    hk_region_give(r);
    hk_region_give(guard);
}

static void moving(void) {
    start_empty(64 * HK_MIB);
    size_t used;
    hk_range_t r = take(3, &used);
    char *old = r.start;
    for (size_t i = 0; i < 3; i++)
        mark(r.start + i * HK_UNIT, HK_UNIT, (unsigned char)(1 + i));
    size_t live = hk_region_live(), touched = hk_counted(touched);
    hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_FOREIGN);
    CHECK(hk_region_move(&r, 7 * HK_UNIT, 7 * HK_UNIT));
    CHECK_EQ(hk_counted(touched), touched + 4 * HK_UNIT);
    CHECK(r.start != old && r.bytes == 7 * HK_UNIT && (uintptr_t)r.start % HK_UNIT == 0);
    for (size_t i = 0; i < 3; i++)
        CHECK(marked(r.start + i * HK_UNIT, HK_UNIT, (unsigned char)(1 + i)));
    CHECK(is_zero(r.start + 3 * HK_UNIT, 4 * HK_UNIT));
    CHECK_EQ(hk_region_live(), live + 4 * HK_UNIT);
    hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_INTERIOR);
    mark(r.start, r.bytes, 0xcc);

    /* a range that is several kernel mappings: gathered out of pieces, then moved */
    start_empty(64 * HK_MIB);
    for (size_t i = 1; i < 7; i += 2)
        give(r.start + i * HK_UNIT, 1);
    hk_range_t pieces = take(3, &used);
    CHECK_EQ(used, 3 * HK_UNIT);
    mark(pieces.start, pieces.bytes, 0xdd);
    hk_map_set(pieces.start, pieces.bytes / HK_SLICE, HK_KIND_FOREIGN);
    CHECK(hk_region_move(&pieces, 5 * HK_UNIT, 5 * HK_UNIT));
    CHECK(marked(pieces.start, 3 * HK_UNIT, 0xdd));
    CHECK(is_zero(pieces.start + 3 * HK_UNIT, 2 * HK_UNIT));

    /* cached pages serve what was wanted; the headroom beyond gets none */
    for (size_t i = 0; i < 7; i += 2)
        give(r.start + i * HK_UNIT, 1);
    touched = hk_counted(touched);
    hk_map_set(pieces.start, pieces.bytes / HK_SLICE, HK_KIND_FOREIGN);
    CHECK(hk_region_move(&pieces, 7 * HK_UNIT, 9 * HK_UNIT));
    CHECK_EQ(hk_counted(touched),
             touched + 2 * HK_UNIT); /* the headroom: the block will grow into it */
    CHECK(marked(pieces.start, 3 * HK_UNIT, 0xdd));
    CHECK(marked(pieces.start + 5 * HK_UNIT, 2 * HK_UNIT, 0xcc));
    CHECK(is_zero(pieces.start + 7 * HK_UNIT, 2 * HK_UNIT));
    CHECK_EQ(hk_region_cached(), 2 * HK_UNIT);
    hk_region_give(pieces);
}

#if HK_DEBUG
/* Clears earlier refusals, so that moving is tried. `spare`: spare mappings exist, so that only a refusal prevents it. */
static void refuse_after(long n, bool spare) {
    hk_store_relaxed(&hk_region_no_moves, 0u);
    CHECK(!spare || hk_mappings_to_spare());
    hk_os_fail_after(n);
}
#endif

/* The system refuses from its nth call on: an operation that fails has no visible effect. */
static void system_refuses(void) {
#if HK_DEBUG
    unsigned refused = 0, served = 0;
    for (long round = 0; round < 24; round++) {
        const long n = round / 2;
        const bool spare = round % 2 != 0;
        start_empty(64 * HK_MIB);
        size_t used;
        hk_range_t all = take(UNITS, &used), big = {.start = NULL};
        mark(all.start, all.bytes, 0xee);
        for (size_t i = 1; i < UNITS; i += 2)
            give(all.start + i * HK_UNIT, 1);
        region_stats_t before = region_stats();

        refuse_after(n, spare);
        bool taken = try_take(12, HK_UNIT, &big, &used);
        hk_os_fail_after(-1);
        region_stats_t after = region_stats();
        CHECK_EQ(after.live, before.live + (taken ? 12 * HK_UNIT : 0));
        CHECK(after.cached <= before.cached);
        *(taken ? &served : &refused) += 1;
        if (taken) {
            CHECK(is_zero(big.start + used, big.bytes - used));
            mark(big.start, big.bytes, 0xbb);
            hk_region_give(big);
        }

        hk_range_t r = {.start = all.start, .bytes = HK_UNIT};
        hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_FOREIGN);
        before = region_stats();
        refuse_after(n, spare);
        bool moved = hk_region_move(&r, 4 * HK_UNIT, 4 * HK_UNIT);
        hk_os_fail_after(-1);
        CHECK(moved ? r.bytes == 4 * HK_UNIT : r.start == all.start && r.bytes == HK_UNIT);
        CHECK(marked(r.start, HK_UNIT, 0xee));
        CHECK_EQ(hk_region_live(), before.live + (moved ? 3 * HK_UNIT : 0));
        *(moved ? &served : &refused) += 1;

        /* r may be several mappings now: its units are moved one by one, or all copied, or none */
        const hk_range_t was = r;
        mark(r.start, r.bytes, 0x77);
        hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_FOREIGN);
        before = region_stats();
        refuse_after(n, spare);
        moved = hk_region_move(&r, was.bytes + 3 * HK_UNIT, was.bytes + 4 * HK_UNIT);
        hk_os_fail_after(-1);
        CHECK_EQ(r.bytes, was.bytes + (moved ? 4 * HK_UNIT : 0));
        CHECK(moved || r.start == was.start);
        CHECK(marked(r.start, was.bytes, 0x77));
        CHECK_EQ(hk_region_live(), before.live + r.bytes - was.bytes);

        hk_range_t later = take(5, &used);
        CHECK(is_zero(later.start + used, later.bytes - used));
        mark(later.start, later.bytes, 0x11);
        hk_region_give(later);
        hk_region_give(r);
        for (size_t i = 2; i < UNITS; i += 2)
            give(all.start + i * HK_UNIT, 1);
        check_held();
    }
    CHECK(refused >= 2 && served >= 2); /* n has covered both outcomes */
#else
    puts("skipped, needs a debug build: system_refuses");
#endif
}

typedef void *remap_t(void *from, size_t bytes, size_t new_bytes, int flags, ...);
static uint32_t moves_left = UINT32_MAX;
static unsigned moves_refused;
static size_t most_held; /* the maximum of hk_held() while pages moved */

/* Replaces mremap() for hakmem: notes what is held, and refuses once moves_left is 0. */
__attribute__((visibility("default"))) void *mremap(void *from, size_t bytes, size_t new_bytes,
                                                    int flags, ...) {
    static remap_t *next;
    va_list rest;
    va_start(rest, flags);
    void *to = va_arg(rest, void *);
    va_end(rest);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "mremap");
    most_held = hk_max(most_held, hk_held());
    errno = ENOMEM;
    if (moves_left == 0) {
        moves_refused++;
        return MAP_FAILED;
    }
    moves_left--;
    return next(from, bytes, new_bytes, flags, to);
}

/* If pages cannot be moved to a new range, the rest of that range is cached. Huge pages were asked for in a part of it,
 * so it is two kernel mappings and must be marked as mixed. */
static void what_is_left_may_be_two(void) {
    start_empty(64 * HK_MIB);
    size_t used;
    hk_range_t cached = take(1, &used), beside = take(1, &used), range, left;
    hk_store_relaxed(&hk_region_no_moves, 0u);
    hk_region_give(cached);
    moves_left = 0;
    CHECK(hk_region_take(8 * HK_UNIT, HK_UNIT, 6 * HK_UNIT, &range, &used) && used == 0);
    moves_left = UINT32_MAX;
    left = take(7, &used);
    CHECK(used == 7 * HK_UNIT && left.mixed);
    hk_region_give(left);
    hk_region_give(range);
    hk_region_give(beside);
}

/* Moves a range to a place `units` larger. While its pages move, only these units more are held. */
static void grows_elsewhere(hk_range_t *range, size_t units) {
    const size_t before = hk_held(), bytes = range->bytes + units * HK_UNIT;
    hk_map_set(range->start, range->bytes / HK_SLICE, HK_KIND_FOREIGN);
    most_held = 0;
    CHECK(hk_region_move(range, bytes, bytes));
    CHECK_EQ(most_held, before + units * HK_UNIT);
    check_held();
}

/* Pages on the move do not count at both places: a limit would refuse memory too early. */
static void moving_pages_count_once(void) {
    start_empty(64 * HK_MIB);
    size_t used;
    hk_range_t cached = take(4, &used), one = take(1, &used), several;
    hk_store_relaxed(&hk_region_no_moves, 0u);
    hk_region_give(cached);
    const size_t before = hk_held();
    most_held = 0;
    CHECK(hk_region_take(8 * HK_UNIT, HK_UNIT, 0, &several, &used) && used == 4 * HK_UNIT);
    CHECK_EQ(most_held, before + 4 * HK_UNIT);
    grows_elsewhere(&one, 2);
    grows_elsewhere(&several, 2); /* moves unit by unit */
    hk_region_give(one);
    hk_region_give(several);
}

/* A move that is refused after any number of pieces leaves the account of held memory right (check_held). Refused before the
 * first unit of the range has moved, it fails; after that the range is copied. */
static void stops_half_way(void) {
    enum { PIECES = 16, UNITS_MOVED = 6 };
    unsigned failed = 0, copied = 0, whole = 0;
    for (unsigned piece = 0; piece < PIECES; piece++) {
        start_empty(64 * HK_MIB);
        size_t used;
        hk_range_t range, ahead = take(3, &used), beside = take(1, &used);
        hk_range_t more = take(4, &used), between = take(1, &used);
        hk_store_relaxed(&hk_region_no_moves, 0u);
        hk_region_give(ahead);
        CHECK(hk_region_take(UNITS_MOVED * HK_UNIT, HK_UNIT, 0, &range, &used) && range.mixed);
        mark(range.start, range.bytes, 0x77);
        hk_region_give(more);
        hk_map_set(range.start, range.bytes / HK_SLICE, HK_KIND_FOREIGN);
        moves_left = piece;
        moves_refused = 0;
        const bool moved = hk_region_move(&range, 12 * HK_UNIT, 12 * HK_UNIT);
        moves_left = UINT32_MAX;
        CHECK_EQ(range.bytes, (moved ? 12 : UNITS_MOVED) * HK_UNIT);
        CHECK(marked(range.start, UNITS_MOVED * HK_UNIT, 0x77));
        check_held();
        *(!moved ? &failed : moves_refused != 0 ? &copied : &whole) += 1;
        hk_region_give(range);
        hk_region_give(beside);
        hk_region_give(between);
    }
    CHECK(failed != 0 && copied == UNITS_MOVED - 1 && whole != 0);
}

/* A block that grows in small steps gets headroom when it moves, and keeps it while another block grows, too.
 * Otherwise it would move at every step, in ever more parts. */
static void growing_keeps_its_room(void) {
    enum { BLOCKS = 2, FROM = 16 * HK_UNIT, TO = 32 * HK_UNIT, MOVES = 1 + 8 };
    char *blocks[BLOCKS] = {NULL};
    const uint64_t before = hk_counted_ever(mremap);
    for (size_t n = FROM; n <= TO; n += HK_SLICE)
        for (unsigned i = 0; i < BLOCKS; i++)
            CHECK((blocks[i] = hak_realloc(blocks[i], n)) != NULL);
    CHECK(hk_counted_ever(mremap) - before <= BLOCKS * 2 * MOVES);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(hak_usable_size(blocks[i]) >= TO);
        CHECK((blocks[i] = hak_realloc(blocks[i], TO - HK_UNIT)) != NULL);
        CHECK_EQ(hak_usable_size(blocks[i]), TO - HK_UNIT); /* the headroom is cut off, too */
        hak_free(blocks[i]);
    }
}

/* Scattered ranges that fill a third of their window still find random places inside it. */
static void scattered(void *unused) {
    enum { TAKEN = 10000 };
    const size_t window = (size_t)64 << 30;
    uintptr_t least = UINTPTR_MAX, most = 0;
    size_t used;
    (void)unused;
    hk_region_trim();
    hk_region_scatter(1);
    for (unsigned i = 0; i < TAKEN; i++) {
        const uintptr_t start = (uintptr_t)take(1, &used).start;
        least = hk_min(least, start);
        most = hk_max(most, start);
    }
    CHECK(most - least < window);
}

static void stays_in_its_window(void) {
    static child_t child;
    if (is_emulated("mappings at addresses of chance"))
        return;
    child_run(&child, scattered, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(child.status == 0);
}

int main(void) {
    hak_free(hak_malloc(1));
    stays_in_its_window();
    growing_keeps_its_room();
    size_t live = hk_region_live();
    fresh_memory();
    best_fit_and_joins();
    gathering();
    extending();
    moving();
    system_refuses();
    what_is_left_may_be_two();
    moving_pages_count_once();
    stops_half_way();
    bound_is_respected();
    CHECK_EQ(hk_region_live(), live);
    return 0;
}
