#include "front/emergency.h"

#include "backend/pagemap.h"
#include "base/report.h"
#include "os/os.h"
#include "stats/counters.h"

enum { WAITING = 64 };

/* Lies at the start of the mapping, and so of the slice in which the block starts. */
typedef struct {
    char *block;
    size_t bytes; /* of the mapping */
} header_t;

static _Atomic(void *) waiting[WAITING]; /* atomic: any thread */
atomic_uint hk_emergency_count;          /* atomic: any thread; how many wait */
static _Atomic size_t live_blocks, live; /* atomic: any thread; how many, and bytes of mappings */

static header_t *header_of(const void *p) {
    return (header_t *)((uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1));
}

void *hk_emergency_alloc(size_t n, size_t align) {
    align = hk_max(align, HK_CACHE_LINE);
    if (n > (size_t)PTRDIFF_MAX / 2 || align > HK_SLICE / 2)
        return NULL;
    size_t bytes = hk_align_up(n + align, HK_SLICE);
    char *start = hk_os_map(bytes, HK_SLICE);
    if (start == NULL)
        return NULL;
    if (!hk_map_commit(start, bytes)) {
        hk_os_unmap(start, bytes);
        return NULL;
    }
    char *block = start + align; /* the header is smaller than a cache line */
    *header_of(start) = (header_t){.block = block, .bytes = bytes};
    hk_map_set(start, 1, HK_KIND_EMERGENCY);
    hk_map_set(start + HK_SLICE, bytes / HK_SLICE - 1, HK_KIND_INTERIOR);
    hk_count(maps, 1);
    hk_count(single_maps, 1);
    hk_add_relaxed(&live_blocks, (size_t)1);
    hk_add_relaxed(&live, bytes);
    return block;
}

static header_t *checked(const void *p, hk_fatal_t if_not) {
    header_t *header = header_of(p);
    if (header->block != p)
        hk_fatal(if_not, p);
    return header;
}

void hk_emergency_free(void *p) {
    header_t *header = checked(p, HK_INVALID_FREE);
    size_t bytes = header->bytes;
    hk_sub_relaxed(&live_blocks, (size_t)1);
    hk_sub_relaxed(&live, bytes);
    hk_map_set(header, bytes / HK_SLICE, HK_KIND_FOREIGN);
    hk_os_unmap(header, bytes);
}

size_t hk_emergency_usable(const void *p) {
    header_t *header = checked(p, HK_INVALID_POINTER);
    return header->bytes - (size_t)((const char *)p - (const char *)header);
}

void hk_emergency_defer(void *p) {
    for (unsigned i = 0; i < WAITING; i++) {
        void *none = NULL;
        if (hk_load_relaxed(&waiting[i]) == NULL && hk_cas_seq(&waiting[i], &none, p)) {
            hk_add_relaxed(&hk_emergency_count, 1u);
            return;
        }
    }
}

void *hk_emergency_deferred(void) {
    for (unsigned i = 0; i < WAITING; i++) {
        void *p = hk_load_relaxed(&waiting[i]);
        if (p != NULL && hk_cas_seq(&waiting[i], &p, NULL)) {
            hk_sub_relaxed(&hk_emergency_count, 1u);
            return p;
        }
    }
    return NULL;
}

hk_emergency_stats_t hk_emergency_stats(void) {
    return (hk_emergency_stats_t){hk_load_relaxed(&live_blocks), hk_load_relaxed(&live)};
}
