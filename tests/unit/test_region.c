/* Regions: which free range serves a request, joining, the bound, gathering, growing and moving,
 * and a system that refuses. Addresses are made predictable by giving back parts of one large
 * range. */
#include "backend/region.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "backend/breath.h"
#include "backend/limit.h"
#include "backend/pagemap.h"
#include "base/calls.h"
#include "check.h"
#include "config/config.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "stats/counters.h"

enum { UNITS = 16 };

typedef struct {
    size_t live, cached, maps, unmaps;
} region_stats_t;

static region_stats_t region_stats(void) {
    return (region_stats_t){hk_region_live(), hk_region_cached(), hk_counted(region_maps),
                            hk_counted(region_unmaps)};
}

static bool try_take(size_t units, size_t align, hk_range_t *range, size_t *used) {
    return hk_region_take(units * HK_UNIT, align, units >= 2 ? units * HK_UNIT : 0, range, used);
}

static hk_range_t take(size_t units, size_t *used) {
    hk_range_t range;
    CHECK(try_take(units, HK_UNIT, &range, used));
    CHECK_EQ(range.bytes, units * HK_UNIT);
    CHECK_EQ((uintptr_t)range.start % HK_UNIT, 0);
    return range;
}

static void give(char *start, size_t units) {
    hk_region_give((hk_range_t){.start = start, .bytes = units * HK_UNIT, .mixed = true});
}

/* Fills and checks what lies at the start of each OS page: enough to tell whose page it is. */
static void mark(char *start, size_t bytes, unsigned char with) {
    for (size_t i = 0; i < bytes; i += hk_os_page_size())
        memset(start + i, with, 16);
}

static bool marked(const char *start, size_t bytes, unsigned char with) {
    for (size_t i = 0; i < bytes; i += hk_os_page_size())
        for (size_t j = 0; j < 16; j++)
            if ((unsigned char)start[i + j] != with)
                return false;
    return true;
}

static bool is_zero(const char *start, size_t bytes) {
    const uint64_t *words = (const uint64_t *)(const void *)start;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != 0)
            return false;
    return true;
}

static void start_empty(size_t limit) {
    hk_region_trim();
    hk_breath_forget();
    hk_config.region_cache_mb = limit / HK_MIB;
    CHECK_EQ(hk_region_cached(), 0);
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

    give(u + 1 * HK_UNIT, 1); /* joins: with the range behind, before, and both */
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

/* cached <= max(limit, live / 4) at every moment, also while live falls, where nothing is breath. */
static void check_bound(size_t limit) {
    region_stats_t s = region_stats();
    CHECK(s.cached <= limit || s.cached <= s.live / 4);
}

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

/* No free range can hold the request, several together can. */
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
    CHECK(!hk_region_extend(&r, 3 * HK_UNIT)); /* what lies behind is in use */
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

    /* what it grows by comes from the cache, and nothing does for what is only headroom */
    for (size_t i = 0; i < 7; i += 2)
        give(r.start + i * HK_UNIT, 1);
    touched = hk_counted(touched);
    hk_map_set(pieces.start, pieces.bytes / HK_SLICE, HK_KIND_FOREIGN);
    CHECK(hk_region_move(&pieces, 7 * HK_UNIT, 9 * HK_UNIT));
    CHECK_EQ(hk_counted(touched),
             touched + 2 * HK_UNIT); /* the headroom, which it will grow into */
    CHECK(marked(pieces.start, 3 * HK_UNIT, 0xdd));
    CHECK(marked(pieces.start + 5 * HK_UNIT, 2 * HK_UNIT, 0xcc));
    CHECK(is_zero(pieces.start + 7 * HK_UNIT, 2 * HK_UNIT));
    CHECK_EQ(hk_region_cached(), 2 * HK_UNIT);
    hk_region_give(pieces);
}

/* With the system refusing from the nth call on: what fails has changed nothing that can be
 * seen. */
static void system_refuses(void) {
#if HK_DEBUG
    unsigned refused = 0, served = 0;
    for (long n = 0; n < 12; n++) {
        start_empty(64 * HK_MIB);
        size_t used;
        hk_range_t all = take(UNITS, &used), big = {.start = NULL};
        for (size_t i = 1; i < UNITS; i += 2)
            give(all.start + i * HK_UNIT, 1);
        mark(all.start, HK_UNIT, 0xee);
        region_stats_t before = region_stats();

        hk_os_fail_after(n);
        bool taken = try_take(12, HK_UNIT, &big, &used);
        hk_os_fail_after(-1);
        region_stats_t after = region_stats();
        CHECK_EQ(after.live, before.live + (taken ? 12 * HK_UNIT : 0));
        CHECK(after.cached <= before.cached);
        *(taken ? &served : &refused) += 1;
        if (taken) {
            mark(big.start, big.bytes, 0xbb);
            CHECK(is_zero(big.start + used + 16, hk_os_page_size() - 16));
            hk_region_give(big);
        }

        hk_range_t r = {.start = all.start, .bytes = HK_UNIT};
        hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_FOREIGN);
        before = region_stats();
        hk_os_fail_after(n);
        bool moved = hk_region_move(&r, 4 * HK_UNIT, 4 * HK_UNIT);
        hk_os_fail_after(-1);
        CHECK(moved ? r.bytes == 4 * HK_UNIT : r.start == all.start && r.bytes == HK_UNIT);
        CHECK(marked(r.start, HK_UNIT, 0xee));
        CHECK_EQ(hk_region_live(), before.live + (moved ? 3 * HK_UNIT : 0));
        *(moved ? &served : &refused) += 1;

        /* it may be several mappings now: its units follow each other, or all are copied, or none */
        const hk_range_t was = r;
        mark(r.start, r.bytes, 0x77);
        hk_map_set(r.start, r.bytes / HK_SLICE, HK_KIND_FOREIGN);
        before = region_stats();
        hk_os_fail_after(n);
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
    }
    CHECK(refused >= 2 && served >= 2); /* the range of n saw both */
#else
    puts("skipped, needs a debug build: system_refuses");
#endif
}

/* Where memory is bounded a huge block ends within a slice: when it moves, that is forgotten too. */
static void moved_to_its_end(void) {
    hk_store_relaxed(&hk_region_bounded, true);
    const size_t odd = HK_UNIT + HK_SLICE + HK_KIB;
    char *blocks[64], *moved = NULL;
    for (unsigned i = 0; i < 64; i++)
        CHECK((blocks[i] = hak_malloc(odd)) != NULL);
    for (unsigned i = 0; i < 64; i++) {
        char *old = blocks[i];
        blocks[i] = hak_realloc(old, 4 * odd);
        CHECK(blocks[i] != NULL);
        if (blocks[i] == old || moved != NULL)
            continue;
        moved = old;
        for (size_t at = 0; at < odd; at += HK_SLICE)
            CHECK_EQ(hk_map_kind(moved + at), HK_KIND_FOREIGN);
    }
    CHECK(moved != NULL);
    for (unsigned i = 0; i < 64; i++)
        hak_free(blocks[i]);
    hk_store_relaxed(&hk_region_bounded, false);
}

static void check_kinds(const char *block, size_t bytes) {
    CHECK_EQ(hk_map_kind(block), HK_KIND_HUGE);
    for (size_t at = HK_SLICE; at < bytes; at += HK_SLICE)
        CHECK_EQ(hk_map_kind(block + at), HK_KIND_INTERIOR);
    /* what lies behind may be the C library's */
    CHECK(hk_map_kind(block + hak_usable_size((void *)(uintptr_t)block)) != HK_KIND_INTERIOR);
}

/* Of a block that grows by pages and by slices, and shrinks, each slice is known at each step. */
static void resized_in_place(void) {
    hk_store_relaxed(&hk_region_bounded, true);
    const size_t page = hk_os_page_size();
    size_t n = 3 * HK_UNIT + page;
    char *p = hak_malloc(n);
    for (unsigned step = 0; step < 100; step++) {
        CHECK(p != NULL);
        check_kinds(p, n);
        n += step % 3 == 0 ? page : step % 3 * HK_SLICE;
        p = hak_realloc(p, n);
    }
    n = n / 3 / page * page;
    p = hak_realloc(p, n);
    CHECK(p != NULL);
    check_kinds(p, n);
    hak_free(p);
    hk_store_relaxed(&hk_region_bounded, false);
}

typedef struct {
    int resource;
    const char *used; /* the line that says how much of it is */
    bool flat;
    size_t left;
} bound_t;

/* Mapped beside what is held. (A leaf of the page map may come, the mappings to spare may go.) */
static size_t mapped_beside(const bound_t *bound) { return hk_os_status(bound->used) - hk_held(); }

static bool is_near(size_t is, size_t was) { return is + HK_UNIT > was && was + HK_UNIT > is; }

/* By the system's call: that of hakmem's own gives up the flat map. */
static void be_bounded(const bound_t *bound) {
    struct rlimit limit;
    CHECK(getrlimit((__rlimit_resource_t)bound->resource, &limit) == 0);
    limit.rlim_cur = hk_os_status(bound->used) + bound->left;
    CHECK(syscall(SYS_prlimit64, 0, bound->resource, &limit, NULL) == 0);
}

/* Whether or not the system moves the block, what is held is what is mapped, now and when all went back. */
static void moved_within_bounds(void *argument) {
    const bound_t *bound = argument;
    size_t used;
    hk_range_t r;
    start_empty(0);
    hk_store_relaxed(&hk_region_bounded, true);
    if (!bound->flat && hk_map_has_flat())
        hk_map_give_up_flat();
    const size_t page = hk_os_page_size(), live = hk_region_live();
    CHECK(hk_region_take(30 * HK_MIB + page, HK_UNIT, 0, &r, &used));
    mark(r.start, r.bytes, 0x33);
    const size_t beside = mapped_beside(bound), bytes = r.bytes, more = 50 * HK_MIB + page;
    be_bounded(bound);
    const bool moved = hk_region_move(&r, more, more);
    /* the difference is enough, with what aligns the block, unless old and new are addresses of two places */
    CHECK(moved || bound->left < 26 * HK_MIB || (bound->resource == RLIMIT_AS && bound->flat));
    CHECK_EQ(r.bytes, moved ? more : bytes);
    CHECK_EQ(hk_region_live(), live + r.bytes);
    CHECK_EQ(hk_region_cached(), 0);
    CHECK(marked(r.start, bytes, 0x33));
    CHECK(is_near(mapped_beside(bound), beside));
    hk_map_set(r.start, hk_slices_of(r.bytes), HK_KIND_INTERIOR);
    hk_region_give(r);
    CHECK(is_near(mapped_beside(bound), beside));
}

static void moves_within_bounds(void) {
    if (is_emulated("limits of the emulator's own"))
        return;
    for (size_t left = 10; left <= 80; left += 4) {
        static child_t child;
        bound_t bounds[] = {{RLIMIT_AS, "VmSize:", true, left * HK_MIB},
                            {RLIMIT_AS, "VmSize:", false, left * HK_MIB},
                            {RLIMIT_DATA, "VmData:", true, left * HK_MIB}};
        for (unsigned i = 0; i < sizeof bounds / sizeof *bounds; i++) {
            child_run(&child, moved_within_bounds, &bounds[i]);
            CHECK_TEXT(child.text, "");
            CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
        }
    }
}

/* A block that is several mappings and ends within a unit: no more of its last one is moved than is its own. */
static void moved_in_parts(void) {
    const size_t page = hk_os_page_size(), whole = 2 * HK_UNIT;
    size_t used;
    start_empty(64 * HK_MIB);
    hk_range_t all = take(2, &used);
    give(all.start, 1);
    give(all.start + HK_UNIT, 1);
    hk_range_t r = take(2, &used);
    CHECK(r.mixed);
    mark(r.start, whole, 0x44);
    hk_store_relaxed(&hk_region_bounded, true);
    for (size_t n = 1; n < 4; n++) {
        char *behind = r.start + hk_align_up(r.bytes, HK_SLICE), *old = r.start;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        char *foreign = mmap(behind, page, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (foreign != MAP_FAILED)
            mark(foreign, page, 0x55);
        const size_t held = hk_held(), live = hk_region_live(), before = r.bytes;
        hk_map_set(r.start, hk_slices_of(r.bytes), HK_KIND_FOREIGN);
        CHECK(hk_region_move(&r, whole + n * page, whole + n * page));
        CHECK(r.start != old && marked(r.start, whole, 0x44));
        const size_t more = r.bytes - before; /* and perhaps some of the page map */
        CHECK(hk_held() >= held + more && hk_held() < held + more + HK_MIB);
        CHECK_EQ(hk_region_live(), live + more);
        CHECK(foreign == MAP_FAILED || marked(foreign, page, 0x55));
        if (foreign != MAP_FAILED)
            munmap(foreign, page);
    }
    hk_map_set(r.start, hk_slices_of(r.bytes), HK_KIND_INTERIOR);
    hk_region_give(r);
    hk_store_relaxed(&hk_region_bounded, false);
}

/* What grows by little has room for more once it has moved, and keeps it while others grow as well: else it would move
 * again and again, its pages in ever more parts. */
static void growing_keeps_its_room(void) {
    enum { BLOCKS = 2, FROM = 16 * HK_UNIT, TO = 32 * HK_UNIT, MOVES = 1 + 8 };
    char *blocks[BLOCKS] = {NULL};
    uint64_t before[HK_CALL_KINDS], after[HK_CALL_KINDS];
    hk_calls_read(before);
    for (size_t n = FROM; n <= TO; n += HK_SLICE)
        for (unsigned i = 0; i < BLOCKS; i++)
            CHECK((blocks[i] = hak_realloc(blocks[i], n)) != NULL);
    hk_calls_read(after);
    CHECK(after[HK_CALL_mremap] - before[HK_CALL_mremap] <= BLOCKS * 2 * MOVES);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(hak_usable_size(blocks[i]) >= TO);
        CHECK((blocks[i] = hak_realloc(blocks[i], TO - HK_UNIT)) != NULL);
        CHECK_EQ(hak_usable_size(blocks[i]), TO - HK_UNIT); /* cut, and what was on top too */
        hak_free(blocks[i]);
    }
}

/* Where ranges are scattered, chance finds places in a window that is a third full. */
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
#ifdef __SANITIZE_THREAD__
    return; /* it allows no mappings at most addresses */
#endif
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
    moved_to_its_end();
    resized_in_place();
    moves_within_bounds();
    fresh_memory();
    best_fit_and_joins();
    gathering();
    extending();
    moving();
    moved_in_parts();
    system_refuses();
    bound_is_respected();
    CHECK_EQ(hk_region_live(), live);
    return 0;
}
