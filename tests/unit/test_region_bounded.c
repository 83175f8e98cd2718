/* Blocks that grow and move where memory is bounded: they end within a unit, or within a slice, and the limit may not
 * allow the old and the new place at once. */
#include "backend/region.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "backend/limit.h"
#include "backend/pagemap.h"
#include "base/counters.h"
#include "check.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "regions.h"

/* Where memory is bounded a huge block ends within a slice. When it moves, the map's entry of that last slice is cleared,
 * too. */
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
    /* the memory behind may belong to the C library, so its kind is unknown */
    CHECK(hk_map_kind(block + hak_usable_size((void *)(uintptr_t)block)) != HK_KIND_INTERIOR);
}

/* As a block grows by pages and by slices, and shrinks, the page map has all its slices at each step. */
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
    const char *used; /* the status line with the amount in use */
    bool flat;
    size_t left;
} bound_t;

/* Bytes mapped beyond hk_held(). Not exact: a leaf of the page map may be added, the spare mappings may go. */
static size_t mapped_beside(const bound_t *bound) { return hk_os_status(bound->used) - hk_held(); }

static bool is_near(size_t is, size_t was) { return is + HK_UNIT > was && was + HK_UNIT > is; }

/* By a raw system call: hakmem's wrapper of setrlimit() would give up the flat map. */
static void be_bounded(const bound_t *bound) {
    struct rlimit limit;
    CHECK(getrlimit((__rlimit_resource_t)bound->resource, &limit) == 0);
    limit.rlim_cur = hk_os_status(bound->used) + bound->left;
    CHECK(syscall(SYS_prlimit64, 0, bound->resource, &limit, NULL) == 0);
}

/* Under a limit a move may succeed or fail: hk_held() equals the mapped bytes afterwards, and after all is given back. */
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
    const uint64_t maps = hk_counted(region_maps);
    be_bounded(bound);
    const bool moved = hk_region_move(&r, more, more);
    CHECK(!moved || hk_counted(region_maps) > maps);
    /* room for the difference and for alignment suffices, unless both places' addresses count */
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

/* A block of several mappings that ends within a unit: the move takes only its own pages of the last unit, and leaves a
 * foreign page behind them. */
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

int main(void) {
    hak_free(hak_malloc(1));
    const size_t live = hk_region_live();
    moved_to_its_end();
    resized_in_place();
    moves_within_bounds();
    moved_in_parts();
    CHECK_EQ(hk_region_live(), live);
    return 0;
}
