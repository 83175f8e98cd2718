#include "backend/own.h"

#include "backend/hoard.h"
#include "backend/meta.h"
#include "backend/pagemap.h"

enum { TABLES = 64 };

/* A place is free while `start` is NULL; `bytes` is 0 until the place is filled. */
static struct {
    _Atomic(const char *) start; /* atomic: any thread */
    _Atomic size_t bytes;        /* atomic: the thread that set `start` */
} tables[TABLES];

void hk_own_add(const void *start, size_t bytes) {
    for (unsigned i = 0; i < TABLES && start != NULL; i++) {
        const char *none = NULL;
        if (hk_load_relaxed(&tables[i].start) == NULL &&
            hk_cas_seq(&tables[i].start, &none, (const char *)start)) {
            hk_store_release(&tables[i].bytes, bytes);
            return;
        }
    }
}

void hk_own_drop(const void *start) {
    hk_assert(start != NULL);
    for (unsigned i = 0; i < TABLES; i++)
        if (hk_load_relaxed(&tables[i].start) == start) {
            hk_store_relaxed(&tables[i].bytes, (size_t)0);
            hk_store_release(&tables[i].start, NULL);
            return;
        }
}

typedef struct {
    const char *from, *end;
    bool is_met;
} range_t;

static void meet(const void *start, size_t bytes, void *argument) {
    range_t *range = argument;
    const char *own = start;
    range->is_met |= own < range->end && range->from < own + bytes;
}

bool hk_own_meets(const void *from, const void *end) {
    range_t range = {.from = from, .end = end};
    hk_meta_visit(meet, &range);
    hk_map_visit_own(meet, &range); /* also what is left of a flat map that was given up */
    if (hk_map_has_flat())
        meet((const void *)(uintptr_t)hk_flat.bytes, HK_MAP_BYTES, &range);
    hk_hoard_visit(meet, &range);
    for (unsigned i = 0; i < TABLES; i++)
        meet(hk_load_relaxed(&tables[i].start), hk_load_acquire(&tables[i].bytes), &range);
    return range.is_met;
}
