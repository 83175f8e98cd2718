/* Looks at superslabs: visits and figures, and what is claimed of them for a purge. */
#include "backend/slab.h"
#include "backend/superslab_own.h"
#include "base/report.h"

/* ---- visits ---- */

void hk_superslab_visit_locked(const hk_superslab_t *ss, hk_slab_visitor_t *visit, void *argument) {
    hk_assert(hk_lock_is_mine(&hk_pool_lock));
    for (uint32_t left = ss->whole & ~(ss->free | ss->claimed); left != 0;) {
        const hk_slab_t *slab = &ss->slabs[__builtin_ctz(left)];
        left &= ~hk_slice_mask(slab->first, slab->slices);
        visit(slab, argument);
    }
}

void hk_pool_visit(hk_slab_visitor_t *visit, void *argument) {
    hk_superslab_t *ss = NULL;
    do {
        hk_lock(&hk_pool_lock);
        ss = hk_superslab_next_locked(ss);
        if (ss != NULL)
            hk_superslab_visit_locked(ss, visit, argument);
        hk_unlock(&hk_pool_lock);
    } while (ss != NULL);
}

static void collect_slab(const hk_slab_t *slab, void *argument) {
    hk_pool_cursor_t *cursor = argument;
    hk_assert(cursor->count < HK_SLICES);
    if (slab->cls != 0)
        cursor->slabs[cursor->count++] = (hk_slab_t *)(uintptr_t)slab;
}

bool hk_pool_next(hk_pool_cursor_t *cursor) {
    hk_lock(&hk_pool_lock);
    hk_superslab_t *ss = cursor->superslab = hk_superslab_next_locked(cursor->superslab);
    cursor->count = 0;
    if (ss != NULL) {
        cursor->base = ss->base;
        cursor->lazy = ss->lazy;
        cursor->wiped = ss->wiped & hk_superslab_dirty(ss);
        cursor->huge_pages = !ss->no_huge_pages;
        hk_superslab_visit_locked(ss, collect_slab, cursor);
    }
    hk_unlock(&hk_pool_lock);
    return ss != NULL;
}

static void add_free(const hk_slab_t *slab, void *argument) {
    hk_pool_free_t *sum = argument;
    if (slab->cls == 0)
        return;
    const size_t dirty = hk_slab_dirty_bytes(slab);
    sum->dirty += dirty;
    sum->of_class[slab->cls] += dirty;
    sum->likely += hk_slab_likely_bytes(slab, dirty);
    sum->clean += hk_slab_clean_bytes(slab);
}

bool hk_pool_add_free(hk_superslab_t **at, hk_pool_free_t *sum) {
    hk_lock(&hk_pool_lock);
    hk_superslab_t *ss = *at = hk_superslab_next_locked(*at);
    if (ss != NULL) {
        const size_t gone = hk_superslab_gone(ss, hk_superslab_dirty(ss));
        const size_t dirty = (size_t)hk_ones(hk_superslab_dirty(ss)) * HK_SLICE - gone;
        sum->dirty += dirty;
        sum->likely += dirty;
        sum->slices += dirty;
        sum->clean += (size_t)hk_ones(ss->fresh | ss->lazy) * HK_SLICE + gone;
        hk_superslab_visit_locked(ss, add_free, sum);
    }
    hk_unlock(&hk_pool_lock);
    return ss != NULL;
}

/* ---- claims ---- */

uint32_t hk_pool_claim(hk_superslab_t *ss, hk_claim_t which, hk_os_range_t *ranges,
                       unsigned *count) {
    hk_lock(&hk_pool_lock);
    if (ss->filled)
        ss->fresh = 0;
    ss->filled = false;
    if (which == HK_CLAIM_LAZY_TOO) {
        ss->purged &= ~ss->lazy;
        ss->lazy = 0;
    }
    const uint32_t dirty = hk_superslab_dirty(ss);
    const uint32_t claimed = which == HK_CLAIM_AGED ? dirty & ss->seen : dirty;
    ss->seen = dirty & ~claimed;
    ss->free &= ~claimed;
    ss->claimed |= claimed;
    hk_pool_relist_locked(ss);
    *count = hk_mask_ranges(ss->base, claimed, HK_SLICE, ranges);
    hk_unlock(&hk_pool_lock);
    return claimed;
}

size_t hk_pool_unclaim(hk_superslab_t *ss, uint32_t claimed, uint32_t purged, bool lazily,
                       bool *seen) {
    hk_assert((purged & ~claimed) == 0);
    hk_lock(&hk_pool_lock);
    const size_t bytes = (size_t)hk_ones(purged) * HK_SLICE - hk_superslab_gone(ss, purged);
    hk_superslab_forget_gone_locked(ss, purged);
    hk_assert((ss->claimed & claimed) == claimed); /* which keeps its memory where it is */
    *(lazily ? &ss->lazy : &ss->fresh) |= purged;
    ss->purged |= purged;
    ss->free |= claimed;
    ss->claimed &= ~claimed;
    hk_pool_relist_locked(ss);
    *seen |= ss->seen != 0;
    /* a whole one is on the list of those; what has holes, or is a part, is on none, and its last slab may be gone since */
    const bool ends = ss->base != NULL && ss->free == ss->whole && ss->whole != UINT32_MAX;
    const hk_range_t range = ends ? hk_superslab_detach_locked(ss) : (hk_range_t){0};
    hk_unlock(&hk_pool_lock);
    if (range.bytes != 0)
        hk_superslab_release(ss, range);
    return bytes;
}

/* ---- what should be zero ---- */

/* Nobody has anything on the page. Returns the first byte that is not 0; NULL: there is none. */
static char *look_at_page(char *page) {
    const size_t bytes = hk_os_page_size(), at = hk_not_zero(page, bytes);
    if (HK_LIKELY(at == SIZE_MAX))
        return NULL;
    hk_zero(page, bytes);
    return page + at;
}

/* What slabs have left there. Pages that are gone would only be brought in. */
hk_spoilt_t hk_pool_look(hk_superslab_t *ss, uint32_t claimed) {
    const unsigned pages = (unsigned)(HK_SLICE / hk_os_page_size());
    uint16_t gone[HK_SLICES];
    if (HK_LIKELY(!hk_superslab_wipes()))
        return (hk_spoilt_t){0};
    hk_lock(&hk_pool_lock);
    uint32_t left = claimed & ss->wiped;
    memcpy(gone, ss->gone, sizeof gone);
    hk_unlock(&hk_pool_lock);
    char *first = NULL;
    for (; left != 0; left &= left - 1) {
        const unsigned slice = (unsigned)__builtin_ctz(left);
        for (unsigned i = 0; i < pages; i++) {
            char *page = ss->base + slice * HK_SLICE + i * hk_os_page_size();
            char *at = (gone[slice] >> i & 1) == 0 ? look_at_page(page) : NULL;
            first = first == NULL ? at : first;
        }
    }
    return (hk_spoilt_t){first, first, HK_NO_SIZE};
}

hk_spoilt_t hk_pool_look_at_pages(const hk_slab_t *slab, uint64_t claimed) {
    const size_t bytes = hk_os_page_size();
    const hk_class_t *c = &hk_classes[slab->cls];
    char *first = NULL;
    for (; claimed != 0 && hk_superslab_wipes(); claimed &= claimed - 1) {
        const size_t from = (size_t)__builtin_ctzll(claimed) * bytes;
        if (!hk_superslab_is_wiped(slab, from, bytes))
            continue;
        char *at = look_at_page(slab->base + from);
        first = first == NULL ? at : first;
    }
    if (HK_LIKELY(first == NULL))
        return (hk_spoilt_t){0};
    const size_t index = hk_class_index(c, (size_t)(first - slab->base));
    return (hk_spoilt_t){first, slab->base + index * c->size, c->size};
}

bool hk_pool_rule_out_huge_pages(hk_superslab_t *ss, hk_os_range_t *range) {
    hk_lock(&hk_pool_lock);
    bool first = !ss->no_huge_pages && ss->base != NULL;
    ss->no_huge_pages = true;
    *range = (hk_os_range_t){ss->base, hk_superslab_bytes(ss)};
    hk_unlock(&hk_pool_lock);
    return first;
}
