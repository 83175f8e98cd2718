#include "backend/large.h"

#include <string.h>

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "backend/superslab.h"
#include "base/lock.h"
#include "base/report.h"

enum { LARGE_MAX_SLICES = HK_SLICES / 2 };

/* A huge block's descriptor, found through the owner table. Type-stable. */
typedef struct huge {
    hk_range_t range;
    size_t bytes; /* sum of the range's pieces */
    struct huge *next_unused;
} huge_t;

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_HUGE);
static huge_t *unused; /* lock: huge */

static huge_t *descriptor(void) {
    hk_lock(&lock);
    huge_t *huge = unused;
    if (huge != NULL)
        unused = huge->next_unused;
    hk_unlock(&lock);
    return huge != NULL ? huge : hk_meta_alloc(sizeof *huge);
}

static void drop_descriptor(huge_t *huge) {
    hk_lock(&lock);
    huge->next_unused = unused;
    unused = huge;
    hk_unlock(&lock);
}

static void publish(huge_t *huge) {
    char *start = huge->range.start;
    hk_map_set_owner(start, huge);
    hk_map_set(start, 1, HK_KIND_HUGE);
    hk_map_set(start + HK_SLICE, huge->bytes / HK_SLICE - 1, HK_KIND_INTERIOR);
}

static void *huge_alloc(size_t bytes, size_t align, unsigned most_pieces, size_t *dirty) {
    huge_t *huge = descriptor();
    if (huge == NULL)
        return NULL;
    if (!hk_region_take(bytes, hk_max(align, HK_GRANULE), most_pieces, &huge->range)) {
        drop_descriptor(huge);
        return NULL;
    }
    huge->bytes = bytes;
    publish(huge);
    *dirty = huge->range.used;
    return huge->range.start;
}

void *hk_large_alloc(size_t n, size_t align, size_t *dirty) {
    if (n > (size_t)PTRDIFF_MAX - HK_SLICE || align > (size_t)PTRDIFF_MAX / 2)
        return NULL;
    size_t bytes = hk_align_up(hk_max(n, 1), HK_SLICE);
    if (bytes > LARGE_MAX_SLICES * HK_SLICE || align > HK_SLICE)
        return huge_alloc(bytes, align, HK_REGION_PIECES, dirty);
    hk_slab_t *run = hk_pool_take((unsigned)(bytes / HK_SLICE), 0);
    if (run == NULL)
        return NULL;
    *dirty = run->zeroed ? 0 : bytes;
    return run->base;
}

/* The descriptor of a large or huge block that starts at p. */
static hk_slab_t *run_at(const void *p, hk_fatal_t if_not) {
    hk_slab_t *run = hk_slab_of(p);
    if (run == NULL || run->base != p)
        hk_fatal(if_not, p);
    return run;
}

static huge_t *huge_at(const void *p, hk_fatal_t if_not) {
    huge_t *huge = hk_map_owner(p);
    if (huge == NULL || huge->range.start != p)
        hk_fatal(if_not, p);
    return huge;
}

/* Gives back what lies beyond the first `keep` bytes, piece by piece. */
static void give_tail(huge_t *huge, size_t keep) {
    hk_range_t *range = &huge->range;
    while (huge->bytes > keep) {
        size_t *last = &range->bytes[range->pieces - 1];
        size_t cut = hk_min(*last, huge->bytes - keep);
        huge->bytes -= cut;
        *last -= cut;
        if (*last == 0)
            range->pieces--;
        hk_region_give(range->start + huge->bytes, cut);
    }
}

void hk_large_free(void *p, unsigned kind) {
    if (kind == HK_KIND_LARGE) {
        hk_pool_give(run_at(p, HK_INVALID_FREE));
        return;
    }
    huge_t *huge = huge_at(p, HK_INVALID_FREE);
    hk_map_set_owner(p, NULL);
    give_tail(huge, 0);
    drop_descriptor(huge);
}

size_t hk_large_usable(const void *p, unsigned kind) {
    return kind == HK_KIND_LARGE ? run_at(p, HK_INVALID_POINTER)->slices * HK_SLICE
                                 : huge_at(p, HK_INVALID_POINTER)->bytes;
}

/* A block that has grown once will grow again: an eighth of untouched address space goes on top. */
static size_t with_headroom(size_t bytes) { return hk_align_up(bytes + bytes / 8, HK_SLICE); }

/* Moves pages where the block is one piece. A block of several is copied, once: the copy is one piece. */
static void *huge_grow(huge_t *huge, size_t bytes) {
    char *old = huge->range.start;
    size_t roomy = with_headroom(bytes);
    if (huge->range.pieces == 1) {
        hk_map_set_owner(old, NULL);
        hk_map_set(old, huge->bytes / HK_SLICE, HK_KIND_FOREIGN);
        bool moved = hk_region_move(&huge->range, roomy, HK_GRANULE);
        if (moved)
            huge->bytes = roomy;
        publish(huge);
        return moved ? huge->range.start : NULL;
    }
    size_t dirty;
    char *copy = huge_alloc(roomy, HK_GRANULE, 1, &dirty);
    if (copy == NULL)
        return NULL;
    memcpy(copy, old, huge->bytes);
    hk_large_free(old, HK_KIND_HUGE);
    return copy;
}

void *hk_large_resize(void *p, unsigned kind, size_t n) {
    if (n > (size_t)PTRDIFF_MAX / 2)
        return NULL;
    size_t bytes = hk_align_up(n, HK_SLICE);
    if (kind == HK_KIND_LARGE) {
        hk_slab_t *run = run_at(p, HK_INVALID_POINTER);
        return bytes <= LARGE_MAX_SLICES * HK_SLICE &&
                       hk_pool_resize(run, (unsigned)(bytes / HK_SLICE))
                   ? p
                   : NULL;
    }
    huge_t *huge = huge_at(p, HK_INVALID_POINTER);
    if (bytes > huge->bytes)
        return huge_grow(huge, bytes);
    if (bytes < huge->bytes / 2)
        give_tail(huge, bytes);
    return p;
}

void hk_large_lock(void) { hk_lock(&lock); }
void hk_large_unlock(void) { hk_unlock(&lock); }
