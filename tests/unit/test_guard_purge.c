/* A write to free memory must be reported before a purge gives that memory back: on free pages of slabs,
 * and in free slices. Free blocks from before the guard, which were not cleared, must not be. */
#include "backend/slab.h"
#include "backend/superslab_own.h"
#include "faults.h"

enum { BYTES = 256, BLOCKS = 20000, EARLY = 3000 };
static char *blocks[BLOCKS], *early[EARLY];
static bool kept[BLOCKS];

static const void *place_of(const char *p, bool in_superslab) {
    const hk_slab_t *slab = hk_slab_of(p);
    return in_superslab ? (const void *)hk_superslab_of(slab) : slab;
}

static void take_all(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = hak_malloc(BYTES)) != NULL);
        memset(blocks[i], 'x', BYTES);
    }
}

/* Frees all blocks but one in each slab, or in each superslab. */
static void free_most(bool in_superslab) {
    static const void *seen[BLOCKS];
    for (unsigned i = 0, n = 0, k; i < BLOCKS; i++) {
        const void *place = place_of(blocks[i], in_superslab);
        for (k = 0; k < n && seen[k] != place;)
            k++;
        if ((kept[i] = k == n))
            seen[n++] = place;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (!kept[i])
            hak_free(blocks[i]);
}

static void free_rest(void) {
    for (unsigned i = 0; i < BLOCKS; i++)
        if (kept[i])
            hak_free(blocks[i]);
}

/* Whether a purge would give the block's page back: all blocks on it are free in their slab, none waits in
 * a quarantine or a magazine. */
static bool is_to_go(const char *p) {
    const hk_slab_t *slab = hk_slab_of(p);
    if (!hk_kind_is_class(hk_map_kind(p)))
        return false;
    return hk_slab_free_pages(slab, slab->bits) >> (size_t)(p - slab->base) / hk_os_page_size() & 1;
}

static void write_in_it(void *p) {
    ((char *)p)[8] = 1;
    hak_trim();
}

static void write_at_once(void *p) {
    *(char *)p = 1;
    hak_trim();
}

/* The write must be reported once: then the memory is cleared or given back, and allocating all blocks
 * again must find nothing. */
static void said_once(void *p) {
    hk_store_relaxed(&hk_on_fault, (unsigned)HK_ON_FAULT_REPORT);
    write_in_it(p);
    hak_trim();
    for (unsigned i = 0; i < BLOCKS; i++)
        hak_malloc(BYTES);
}

static void on_pages_of_slabs(void) {
    static child_t child;
    unsigned i = BLOCKS / 2;
    char rest[64];
    take_all();
    free_most(false);
    while (i < BLOCKS && (kept[i] || !is_to_go(blocks[i])))
        i++;
    if (i < BLOCKS) {
        snprintf(rest, sizeof rest, ", a block of %u bytes, at byte 8",
                 hk_classes[hk_map_kind(blocks[i])].size);
        CHECK_FAULT(write_in_it, blocks[i], "write after free", rest);
        child_run(&child, said_once, blocks[i]);
        CHECK_EQ(child.status, 0);
        char *said = strstr(child.text, "hakmem: error: write after free: ");
        CHECK(said == child.text && strchr(said, '\n')[1] == '\0');
    } else {
        CHECK(hk_os_page_size() > 4096);
    }
    hak_trim();
    free_rest();
}

static void in_slices(void) {
    unsigned i = BLOCKS / 2;
    take_all();
    free_most(true);
    while (i < BLOCKS && (kept[i] || hk_map_kind(blocks[i]) != HK_KIND_FREE))
        i++;
    CHECK(i < BLOCKS);
    CHECK_FAULT(write_at_once, blocks[i], "write after free", "");
    hak_trim();
    free_rest();
}

/* Allocates blocks before the guard starts, and frees some, which are not cleared. */
static void take_early(void) {
    for (unsigned i = 0; i < EARLY; i++)
        memset(early[i] = hak_malloc(BYTES), 'x', BYTES);
    for (unsigned i = 0; i < EARLY / 3; i++)
        hak_free(early[i]);
}

static void free_early(void) {
    for (unsigned i = EARLY / 3; i < EARLY; i++)
        hak_free(early[i]);
    hak_trim();
}

int main(void) {
    take_early();
    guard();
    free_early();
    on_pages_of_slabs();
    in_slices();
    hak_trim();
    return 0;
}
