#include "backend/usage.h"

#include <string.h>

#include "backend/heap.h"
#include "backend/large.h"
#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "os/os.h"

/* ---- our own records ---- */

HK_INLINE unsigned words_of(const hk_class_t *c) { return (c->blocks + 63u) / 64; }

/* Blocks freed by others and not collected. Only a pending slab has any, but for the moment between
 * two steps of a free. */
static unsigned take_remote(const hk_slab_t *slab, const hk_class_t *c, uint64_t *free) {
    unsigned count = 0;
    for (unsigned w = 0; hk_load_relaxed(&slab->pending) != 0 && w < words_of(c); w++) {
        uint64_t bits = hk_load_relaxed(&slab->remote[w]);
        count += (unsigned)__builtin_popcountll(bits);
        if (free != NULL)
            free[w] |= bits;
    }
    return count;
}

/* The free count is read before the remote bits: a collection in between then hides blocks, and
 * never counts them twice. */
static void count_slab(const hk_slab_t *slab, void *argument) {
    hk_usage_t *usage = argument;
    if (slab->cls == 0) {
        usage->large_blocks++;
        usage->large_bytes += slab->slices * HK_SLICE;
        return;
    }
    const hk_class_t *c = &hk_classes[slab->cls];
    hk_class_usage_t *of_class = &usage->classes[slab->cls];
    size_t free = hk_load_acquire(&slab->free);
    size_t remote = hk_min(take_remote(slab, c, NULL), c->blocks - free);
    of_class->slabs++;
    of_class->remote += remote;
    of_class->free += free + remote;
    of_class->active += c->blocks - free - remote;
}

static void add_bytes(const void *start, size_t bytes, void *argument) {
    (void)start;
    *(size_t *)argument += bytes;
}

void hk_usage_count(hk_usage_t *usage) {
    memset(usage, 0, sizeof *usage);
    hk_pool_visit(count_slab, usage);
    usage->superslabs = hk_pool_stats().mapped;
    hk_region_stats_t region = hk_region_stats();
    usage->huge_blocks = hk_large_huge_blocks();
    usage->huge_bytes = region.live - hk_min(region.live, usage->superslabs);
    usage->cached = region.cached;
    usage->peak = region.peak;
    hk_meta_visit(add_bytes, &usage->metadata);
    hk_map_visit_own(add_bytes, &usage->metadata);
}

/* ---- what the system says ---- */

/* For one unit at a time, with OS pages of 4 KiB or more. */
enum { MOST_PAGES = HK_UNIT / 4096 };

static size_t count_resident(const unsigned char *pages, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += pages[i] & 1;
    return count;
}

static void measure_slices(const char *start, size_t slices, const _Atomic uint8_t *kinds,
                           void *argument) {
    hk_residency_t *residency = argument;
    const size_t page = hk_os_page_size(), per_slice = HK_SLICE / page;
    unsigned char pages[MOST_PAGES];
    if (!hk_os_resident(start, slices * HK_SLICE, pages))
        return; /* given back meanwhile */
    for (size_t i = 0; i < slices; i++) {
        size_t bytes = count_resident(pages + i * per_slice, per_slice) * page;
        residency->resident += bytes;
        if (hk_load_relaxed(&kinds[i]) == HK_KIND_FREE)
            residency->free += bytes;
    }
}

static void measure_own(const void *start, size_t bytes, void *argument) {
    hk_residency_t *residency = argument;
    const size_t page = hk_os_page_size();
    unsigned char pages[MOST_PAGES];
    for (size_t at = 0; at < bytes; at += HK_UNIT) {
        size_t part = hk_min(bytes - at, HK_UNIT);
        if (hk_os_resident((const char *)start + at, part, pages))
            residency->resident += count_resident(pages, part / page) * page;
    }
}

/* A copy of what must be read under the lock of the slab's owner. */
typedef struct {
    char *base;
    const hk_class_t *c;
    uint64_t free[HK_BITMAP_WORDS]; /* locally or remotely */
} slab_copy_t;

/* False where no block of the slab is free, or the slab is changing hands. */
static bool copy_slab(hk_slab_t *slab, slab_copy_t *copy) {
    hk_heap_t *owner = hk_load_seq(&slab->owner);
    if (owner == NULL)
        return false;
    hk_lock(&owner->lock);
    bool owned = hk_load_seq(&slab->owner) == owner;
    if (owned) {
        copy->base = slab->base;
        copy->c = &hk_classes[slab->cls];
        memcpy(copy->free, slab->bits, words_of(copy->c) * sizeof copy->free[0]);
    }
    hk_unlock(&owner->lock);
    if (!owned)
        return false;
    return take_remote(slab, copy->c, copy->free) != 0 || hk_load_relaxed(&slab->free) != 0;
}

/* Whether all blocks are free that overlap bytes [from, to) of the slab. */
static bool nothing_live(const slab_copy_t *copy, size_t from, size_t to) {
    unsigned first = hk_class_index(copy->c, from), last = hk_class_index(copy->c, to - 1);
    for (unsigned i = first; i <= last && i < copy->c->blocks; i++)
        if (!(copy->free[i / 64] >> i % 64 & 1))
            return false;
    return true;
}

static void measure_free_pages(hk_slab_t *slab, hk_residency_t *residency) {
    slab_copy_t copy;
    if (!copy_slab(slab, &copy))
        return;
    const size_t page = hk_os_page_size(), bytes = copy.c->slices * HK_SLICE;
    unsigned char pages[MOST_PAGES];
    if (!hk_os_resident(copy.base, bytes, pages))
        return;
    for (size_t at = 0; at < bytes; at += page)
        if ((pages[at / page] & 1) && nothing_live(&copy, at, at + page))
            residency->free += page;
}

void hk_usage_residency(hk_residency_t *residency) {
    *residency = (hk_residency_t){0};
    hk_map_visit(measure_slices, residency);
    hk_pool_cursor_t cursor = {0};
    while (hk_pool_next(&cursor))
        for (unsigned i = 0; i < cursor.count; i++)
            measure_free_pages(cursor.slabs[i], residency);
    residency->free = hk_min(residency->free, residency->resident);
    hk_map_visit_own(measure_own, residency);
    hk_meta_visit(measure_own, residency);
}
