#include "front/emergency.h"

#include "backend/limit.h"
#include "backend/mappings.h"
#include "backend/pagemap.h"
#include "base/report.h"
#include "os/os.h"
#include "stats/counters.h"

/* Lies at the start of the slice in which the block starts or, where the block is at that start, of
 * the slice before. */
typedef struct {
    char *start; /* of the mapping, and its bytes */
    size_t bytes;
    size_t block; /* from there on: an address would lead to the block (profile/reach.h) */
} header_t;
_Static_assert(sizeof(header_t) <= HK_CACHE_LINE, "the least alignment leaves room for it");

static char *map(size_t bytes, size_t align) {
    return hk_map_committed(hk_os_map(bytes, hk_max(align, HK_SLICE)), bytes);
}

void *hk_emergency_alloc(size_t n, size_t align) {
    align = hk_max(align, HK_CACHE_LINE);
    /* whole slices: beyond them lies what is not ours */
    size_t bytes = hk_align_up(hk_max(n, 1) + align, HK_SLICE);
    char *start = map(bytes, align);
    if (start == NULL && hk_mappings_let_go())
        start = map(bytes, align);
    if (start == NULL)
        return NULL;
    char *block = start + align;
    *(header_t *)hk_slice_before(block) =
        (header_t){.start = start, .bytes = bytes, .block = align};
    hk_map_set(start, bytes / HK_SLICE, HK_KIND_INTERIOR);
    hk_map_set((char *)((uintptr_t)block & ~(uintptr_t)(HK_SLICE - 1)), 1, HK_KIND_EMERGENCY);
    hk_count(single_maps, 1);
    hk_single_comes(bytes);
    hk_held_add(bytes);
    return block;
}

static header_t *checked(const void *p, hk_fatal_t if_not) {
    header_t *header = hk_slice_before(p);
    if (header->start + header->block != p)
        hk_fatal(if_not, p);
    return header;
}

void hk_emergency_free(void *p) {
    header_t header = *checked(p, HK_INVALID_FREE);
    hk_single_goes(header.bytes);
    hk_held_drop(header.bytes);
    hk_map_set(header.start, header.bytes / HK_SLICE, HK_KIND_FOREIGN);
    hk_os_unmap(header.start, header.bytes);
}

size_t hk_emergency_usable(const void *p) {
    header_t *header = checked(p, HK_INVALID_POINTER);
    return header->bytes - (size_t)((const char *)p - header->start);
}
