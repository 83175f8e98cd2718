/* In a process that does nothing more, the purger's looks must come to an end, even if much free memory
 * cannot be given back: else it would never sleep. */
#include "policy/look.h"

#include <unistd.h>

#include "backend/large.h"
#include "backend/superslab_own.h"
#include "config/config.h"
#include "magazines.h"

/* Makes one look; returns whether it gave anything back, or expects that the next one will. */
static bool look(void) {
    hk_lock(&hk_look_lock);
    hk_look_begin(false, false);
    while (hk_look_step(HK_DECOMMIT_DONTNEED))
        continue;
    const bool again = hk_look_had_effect();
    hk_unlock(&hk_look_lock);
    return again;
}

/* Looks every `ms` milliseconds until two in a row are in vain, as the purger does before it sleeps. Fails
 * after `most` looks. */
static void looks_end(unsigned most, unsigned ms) {
    for (unsigned looks = 0, in_vain = 0; in_vain < 2; looks++) {
        CHECK(looks < most);
        usleep(ms * 1000);
        in_vain = look() ? 0 : in_vain + 1;
    }
}

/* Every second block is free, but no whole page is. */
static void what_is_in_pieces(void *unused) {
    enum { SIZE = 1024, BLOCKS = 32 * 1024 };
    static void *blocks[BLOCKS];
    (void)unused;
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK((blocks[i] = hak_malloc(SIZE)) != NULL);
    for (unsigned i = 0; i < BLOCKS; i += 2)
        hak_free(blocks[i]);
    looks_end(20, 0);
}

/* ---- tails of large blocks ---- */

enum { SLICES = 3, USED = 2 * HK_SLICE + 300, OF_EACH = HK_SLICES / SLICES, CUT = 4 };

static hk_heap_t heap;

static void *take(size_t n) {
    size_t dirty;
    void *p = hk_large_alloc(&heap, n, 16, &dirty);
    CHECK(p != NULL);
    return p;
}

/* In each superslab, a few blocks have been replaced by shorter ones: too few to break a huge page for
 * their free tails. */
static void what_huge_pages_keep(void *unused) {
    enum { UNITS = 40, BLOCKS = UNITS * OF_EACH };
    static void *blocks[BLOCKS];
    (void)unused;
    hak_free(hak_malloc(1));
    for (unsigned i = 0; i < BLOCKS; i++)
        memset(blocks[i] = take(SLICES * HK_SLICE), 1, SLICES * HK_SLICE);
    hk_superslab_t *last = NULL;
    for (unsigned i = 0, cut = 0; i < BLOCKS; i++) {
        hk_superslab_t *ss = hk_map_owner(blocks[i]);
        cut = ss == last ? cut + 1 : 0;
        last = ss;
        ss->no_huge_pages = false;
        if (cut >= CUT)
            continue;
        hk_large_free(&heap, blocks[i], HK_KIND_LARGE);
        CHECK(take(USED) == blocks[i]);
    }
    CHECK(look()); /* the tails will be old at the next look */
    looks_end(3000, 10);
}

int main(void) {
    hk_store_relaxed(&hk_config.lean_target_mb, (uint64_t)1);
    check_passes(what_is_in_pieces, NULL);
    if (hk_os_page_size() < HK_SLICE)
        check_passes(what_huge_pages_keep, NULL);
    return 0;
}
