/* A superslab of the test's own. In builds in which hakmem is the process's malloc, its other blocks
 * lie in the same pool. */
#ifndef UNIT_SUPERSLABS_H
#define UNIT_SUPERSLABS_H

#include "backend/pagemap.h"
#include "backend/superslab.h"
#include "check.h"
#include "os/os.h"
#include "purge_all.h"

static inline bool reads_as(const char *p, size_t bytes, char value) {
    return p[0] == value && memcmp(p, p + 1, bytes - 1) == 0;
}

/* Runs that the pool served from other superslabs before it came to the test's own. */
static hk_slab_t *in_the_way[4096];
static unsigned in_the_way_count;

/* Returns a run of one slice, slice 0; the other 31 slices are free. These have been written to or,
 * with `fresh`, never were; no huge page backs them. */
static inline hk_slab_t *own_superslab(bool fresh) {
    if (fresh)
        purge_all(); /* a range from the region cache would be dirty */
    hk_slab_t *run = hk_pool_take(HK_SLICES, 0, 1);
    CHECK(run != NULL && run->base != NULL);
    CHECK_EQ(hk_os_advise(run->base, HK_UNIT, HK_NO_HUGE_PAGES), 0);
    if (fresh)
        CHECK(run->zeroed && reads_as(run->base, HK_UNIT, 0));
    else
        memset(run->base, 0x5a, HK_UNIT);
    CHECK(hk_pool_resize(run, 1));
    if (fresh) /* the slices just freed count as dirty */
        purge_all();
    return run;
}

static inline hk_slab_t *take_in(const hk_slab_t *superslab, unsigned slices, unsigned cls) {
    for (;;) {
        hk_slab_t *slab = hk_pool_take(slices, cls, 1);
        CHECK(slab != NULL);
        if (hk_map_owner(slab->base) == hk_map_owner(superslab->base))
            return slab;
        CHECK(in_the_way_count < sizeof in_the_way / sizeof *in_the_way);
        in_the_way[in_the_way_count++] = slab;
    }
}

static inline void clear_the_way(void) {
    while (in_the_way_count != 0)
        hk_pool_give(in_the_way[--in_the_way_count]);
}

/* Advises the system about each range, as a purge does. */
static inline void advise_each(const hk_os_range_t *ranges, unsigned count, hk_advice_t how) {
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(hk_os_advise(ranges[i].start, ranges[i].bytes, how), 0);
}

/* Purges every superslab the way the purger does. */
static inline size_t purge_each(hk_advice_t how, bool aged) {
    size_t bytes = 0;
    bool seen = false;
    for (hk_pool_cursor_t cursor = {0}; hk_pool_next(&cursor);)
        bytes += hk_purge_superslab(&cursor, how, aged, &seen);
    return bytes;
}

#endif
