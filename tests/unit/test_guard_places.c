/* Where the memory of a guarded process lies: superslabs lie apart and have holes, and the allocator's
 * own memory lies between inaccessible pages. */
#include "backend/hugepages.h"
#include "backend/meta.h"
#include "backend/superslab_own.h"
#include "faults.h"
#include "os/os.h"

static child_t child;

/* Superslabs must not lie side by side, and must be spread over many random places. */
static void superslabs_lie_apart(void) {
    enum { UNITS = 12, BYTES = 30000, BLOCKS = UNITS * (int)(HK_UNIT / BYTES) };
    static void *blocks[BLOCKS];
    uintptr_t seen[2 * UNITS], least = UINTPTR_MAX, most = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(BYTES);
        const uintptr_t unit = (uintptr_t)blocks[i] >> HK_UNIT_SHIFT;
        bool known = (uintptr_t)blocks[i] >> 46 != 0; /* from before, where the system put it */
        for (unsigned k = 0; k < count; k++) {
            known |= seen[k] == unit;
            CHECK(seen[k] == unit || (seen[k] != unit + 1 && unit != seen[k] + 1));
        }
        if (!known && count < 2 * UNITS)
            seen[count++] = unit;
    }
    for (unsigned k = 0; k < count; k++) {
        least = hk_min(least, seen[k]);
        most = hk_max(most, seen[k]);
    }
    CHECK(count >= UNITS / 2);
    CHECK(most - least > 100 * count); /* of 32 768 places: one run in 10^8 fails */
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

static void write_there(void *p) { *(volatile char *)p = 1; }

static void read_there(void *p) { (void)*(volatile const char *)p; }

/* Fails unless the last child died of an access beside a slab, and its report says so. */
static void says_out_of_bounds(void) {
    CHECK(child.status != 0); /* SIGSEGV, or what a sanitizer makes of it */
    CHECK(strstr(child.text, "hakmem: fatal: out of bounds: ") == child.text);
}

/* One in eight slices of a superslab must be inaccessible, and none that a block lies in. An access to a
 * hole beside a slab, or before the superslab, must be reported as out of bounds. */
static void superslabs_have_holes(void) {
    enum { BYTES = 30000, BLOCKS = 400, UNITS = 32 };
    static char *blocks[BLOCKS], *units[UNITS];
    static bool used[UNITS][HK_UNIT / HK_SLICE];
    unsigned count = 0, holes = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hak_malloc(BYTES);
        blocks[i][BYTES - 1] = 1;
        if ((uintptr_t)blocks[i] >> 46 != 0)
            continue; /* in a superslab from before the guard */
        char *unit = (char *)((uintptr_t)blocks[i] & ~(HK_UNIT - 1));
        unsigned at = 0;
        while (at < count && units[at] != unit)
            at++;
        CHECK(at < UNITS);
        units[at] = unit;
        count = (unsigned)hk_max(count, at + 1);
        used[at][(size_t)(blocks[i] - unit) / HK_SLICE] = true;
    }
    for (unsigned at = 0; at < count; at++)
        for (unsigned slice = 0; slice < HK_UNIT / HK_SLICE; slice++) {
            child_run(&child, read_there, units[at] + slice * HK_SLICE);
            holes += child.status != 0;
            CHECK(child.status == 0 || !used[at][slice]);
            const bool beside = slice != 0 && used[at][slice - 1];
            if (child.status != 0 && beside && hk_guard->fences)
                says_out_of_bounds();
        }
    for (unsigned at = 0; at < count && hk_guard->fences; at++)
        if (used[at][0]) {
            child_run(&child, write_there, units[at] - 8);
            says_out_of_bounds();
        }
    CHECK(count >= 2);
    if (hk_guard->fences)
        CHECK_EQ(holes, 4 * count);
    else /* slabs may be cut from large blocks' superslabs, which have none */
        CHECK(holes >= 4);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* A superslab filled by a huge page must have no holes: they would split the page, and keep their
 * memory. */
static void huge_pages_have_no_holes(void) {
    enum { BYTES = 8000, BLOCKS = 50 * (int)(HK_UNIT / BYTES) };
    static char *blocks[BLOCKS];
    unsigned filled = 0;
    uint32_t holes = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        for (unsigned again = 0; !hk_huge_pages_pay(); again++) { /* makes them seem cheap */
            CHECK(again < 100);
            hk_huge_pages_note(1000, false);
            hk_huge_pages_note(100000, true);
        }
        blocks[i] = hak_malloc(BYTES);
        memset(blocks[i], 1, BYTES);
    }
    hk_lock(&hk_pool_lock);
    for (hk_superslab_t *ss = NULL; (ss = hk_superslab_next_locked(ss)) != NULL;) {
        filled += ss->filled;
        holes |= ss->filled ? ss->holes : 0;
    }
    hk_unlock(&hk_pool_lock);
    CHECK_EQ(holes, 0);
    CHECK(filled > 0 || hk_option(thp) == 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
}

/* Writes to the pages before and behind a chunk of the allocator's own memory must fail. */
static void own_memory_is_fenced(void) {
    static const size_t chunk = 512 * HK_KIB; /* more than the last chunk can have left */
    char *p = hk_meta_alloc(chunk);
    CHECK(p != NULL);
    write_there(p + chunk - 1);
    char *first = (char *)((uintptr_t)p & ~(hk_os_page_size() - 1));
    child_run(&child, write_there, first - 1);
    CHECK(child.status != 0); /* SIGSEGV, or what a sanitizer makes of it */
    char *behind = (char *)hk_align_up((uintptr_t)p + chunk, hk_os_page_size());
    child_run(&child, write_there, behind);
    CHECK(child.status != 0); /* SIGSEGV, or what a sanitizer makes of it */
}

int main(void) {
    guard();
    if (!is_emulated("mappings at addresses of chance")) {
        superslabs_lie_apart();
        superslabs_have_holes();
        huge_pages_have_no_holes();
    }
    own_memory_is_fenced();
}
