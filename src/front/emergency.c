#include "front/emergency.h"

#include "backend/limit.h"
#include "backend/mappings.h"
#include "backend/pagemap.h"
#include "base/counters.h"
#include "base/report.h"
#include "os/os.h"

static char *map(size_t bytes, size_t align) {
    return hk_map_committed(hk_os_map(bytes, hk_max(align, HK_SLICE)), bytes);
}

/* A block takes all of its mapping, whose last slice has another kind: so the page map alone says
 * where a block begins and ends, however many lie side by side, and there is no header that a
 * program could overwrite. */
void *hk_emergency_alloc(size_t n, size_t align) {
    const size_t slices = hk_max(hk_slices_of(n), 2), bytes = slices * HK_SLICE;
    char *p = map(bytes, align);
    if (p == NULL && hk_mappings_let_go())
        p = map(bytes, align);
    if (p == NULL)
        return NULL;
    hk_map_set(p + bytes - HK_SLICE, 1, HK_KIND_INTERIOR);
    hk_map_set(p, slices - 1, HK_KIND_EMERGENCY);
    hk_count(single_maps, 1);
    hk_single_comes(bytes);
    hk_held_add(bytes);
    return p;
}

static bool is_inside(const char *p) {
    return !hk_is_aligned((uintptr_t)p, HK_SLICE) || hk_map_kind(p - HK_SLICE) == HK_KIND_EMERGENCY;
}

/* The bytes of a block, whatever kind its first slice has: a free has changed that. */
static size_t bytes_of(const char *p) {
    const char *last = p + HK_SLICE;
    while (hk_map_kind(last) == HK_KIND_EMERGENCY)
        last += HK_SLICE;
    return (size_t)(last - p) + HK_SLICE;
}

/* Of several threads that free it one succeeds; for the others it is an invalid free. */
void hk_emergency_free(void *p) {
    if (is_inside(p) || !hk_map_change(p, HK_KIND_EMERGENCY, HK_KIND_FOREIGN))
        hk_fatal(HK_INVALID_FREE, p);
    const size_t bytes = bytes_of(p);
    hk_single_goes(bytes);
    hk_held_drop(bytes);
    hk_map_set(p, bytes / HK_SLICE, HK_KIND_FOREIGN);
    hk_os_unmap(p, bytes);
}

size_t hk_emergency_usable(const void *p) {
    if (is_inside(p))
        hk_fatal(HK_INVALID_POINTER, p);
    return bytes_of(p);
}
