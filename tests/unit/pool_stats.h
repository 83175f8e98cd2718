/* Statistics of the pool of slices, counted slab by slab: exact while no other thread allocates. */
#ifndef UNIT_POOL_STATS_H
#define UNIT_POOL_STATS_H

#include "backend/superslab.h"

typedef struct {
    size_t superslabs; /* mapped now */
    size_t mapped;     /* bytes of these superslabs */
    size_t carved;     /* bytes of slabs and large runs */
    size_t active;     /* bytes of blocks that are not free in their slab, and of large runs */
    size_t free_dirty; /* bytes of free slices that have memory */
} pool_stats_t;

static inline void add_slab(const hk_slab_t *slab, void *argument) {
    pool_stats_t *stats = argument;
    const hk_class_t *c = &hk_classes[slab->cls];
    const size_t bytes = slab->slices * HK_SLICE;
    stats->carved += bytes;
    stats->active +=
        slab->cls == 0 ? bytes : (size_t)(c->blocks - hk_load_relaxed(&slab->free)) * c->size;
}

static inline pool_stats_t pool_stats(void) {
    pool_stats_t stats = {.mapped = hk_pool_mapped()};
    hk_pool_free_t free = {0};
    for (hk_superslab_t *at = NULL; hk_pool_add_free(&at, &free);)
        stats.superslabs++;
    hk_pool_visit(add_slab, &stats);
    stats.free_dirty = free.slices;
    return stats;
}

#endif
