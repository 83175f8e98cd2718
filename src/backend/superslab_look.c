/* Looks at superslabs: visits, figures, and claims for a purge. */
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

static void add_tail(const hk_slab_t *run, hk_pool_free_t *sum) {
    uint16_t tail = hk_load_relaxed(&run->free);
    if ((tail & HK_TAIL_CLEAN) != 0)
        sum->clean += hk_tail_bytes(tail);
    else if (sum->marks || (tail & HK_TAIL_SEEN) != 0)
        sum->tails += hk_tail_bytes(tail);
    /* if that fails the tail has just changed: it is new */
    if (sum->marks && hk_tail_bytes(tail) != 0)
        hk_cas_seq(&((hk_slab_t *)(uintptr_t)run)->free, &tail, (uint16_t)(tail | HK_TAIL_SEEN));
}

static void add_free(const hk_slab_t *slab, void *argument) {
    hk_pool_free_t *sum = argument;
    if (slab->cls == 0) {
        add_tail(slab, sum);
        return;
    }
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
    hk_assert((ss->claimed & claimed) == claimed); /* a claim keeps the superslab attached */
    *(lazily ? &ss->lazy : &ss->fresh) |= purged;
    ss->purged |= purged;
    ss->free |= claimed;
    ss->claimed &= ~claimed;
    hk_pool_relist_locked(ss);
    *seen |= ss->seen != 0;
    /* a whole one stays on the list of free ones; one with holes or fewer slices does not, and its
     * last slab may have been given back during the claim */
    const bool ends = ss->base != NULL && ss->free == ss->whole && ss->whole != UINT32_MAX;
    const hk_range_t range = ends ? hk_superslab_detach_locked(ss) : (hk_range_t){0};
    hk_unlock(&hk_pool_lock);
    if (range.bytes != 0)
        hk_superslab_release(ss, range);
    return bytes;
}

/* ---- tails ---- */

typedef struct {
    bool aged;
    size_t bytes; /* of all tails that may be purged */
    hk_os_range_t *ranges;
    unsigned *count;
    uint32_t claimed;
} tails_t;

static bool may_purge(const hk_slab_t *run, bool aged, uint16_t *tail) {
    if (run->cls != 0)
        return false;
    *tail = hk_load_relaxed(&run->free);
    return hk_tail_bytes(*tail) != 0 && (*tail & HK_TAIL_CLEAN) == 0 &&
           (!aged || (*tail & HK_TAIL_SEEN) != 0);
}

/* Sets HELD. False: the tail has changed, or its block is being freed or has been; a run on a stash
 * may have become another block's, which has set its tail anew. */
static bool hold(hk_slab_t *run, uint16_t tail) {
    uint16_t held = (uint16_t)(tail | HK_TAIL_HELD);
    if (!hk_cas_seq(&run->free, &tail, held))
        return false;
    if (hk_map_has_large(run->base) && hk_tail_is_held(run))
        return true;
    hk_cas_seq(&run->free, &held, tail);
    return false;
}

static void add_to_tails(const hk_slab_t *slab, void *argument) {
    tails_t *tails = argument;
    uint16_t tail;
    tails->bytes += may_purge(slab, tails->aged, &tail) ? hk_tail_bytes(tail) : 0;
}

static void claim_tail(const hk_slab_t *slab, void *argument) {
    tails_t *tails = argument;
    uint16_t tail;
    if (!may_purge(slab, tails->aged, &tail) || !hold((hk_slab_t *)(uintptr_t)slab, tail))
        return;
    char *end = slab->base + slab->slices * HK_SLICE;
    tails->claimed |= hk_slice_mask(slab->first, 1);
    tails->ranges[(*tails->count)++] =
        (hk_os_range_t){end - hk_tail_bytes(tail), hk_tail_bytes(tail)};
}

/* A huge page is split only for an eighth of it or more. */
uint32_t hk_pool_claim_tails(hk_superslab_t *ss, bool aged, hk_os_range_t *ranges,
                             unsigned *count) {
    tails_t tails = {.aged = aged, .ranges = ranges, .count = count};
    *count = 0;
    hk_lock(&hk_pool_lock);
    hk_superslab_visit_locked(ss, add_to_tails, &tails);
    if (tails.bytes >= (ss->no_huge_pages ? 1 : HK_UNIT / 8))
        hk_superslab_visit_locked(ss, claim_tail, &tails);
    hk_unlock(&hk_pool_lock);
    return tails.claimed;
}

void hk_pool_unclaim_tails(hk_superslab_t *ss, uint32_t claimed, uint32_t purged, bool lazily) {
    for (; claimed != 0; claimed &= claimed - 1, purged >>= 1) {
        hk_slab_t *run = &ss->slabs[__builtin_ctz(claimed)];
        const size_t bytes = hk_tail_bytes(hk_load_relaxed(&run->free));
        /* CLEAN also after a refusal: so it is not tried again at each look */
        const unsigned gone = (purged & 1) != 0 && !lazily ? HK_TAIL_GONE : 0;
        hk_store_release(&run->free, (uint16_t)(bytes | HK_TAIL_CLEAN | gone));
    }
}

/* ---- writes after free ---- */

/* Returns the first byte of a free page that is not 0, and clears the page; NULL: all are 0. */
static char *look_at_page(char *page) {
    const size_t bytes = hk_os_page_size(), at = hk_not_zero(page, bytes);
    if (HK_LIKELY(at == SIZE_MAX))
        return NULL;
    hk_zero(page, bytes);
    return page + at;
}

/* Looks only at slices that slabs left wiped, and skips pages without memory: a read would bring
 * them in. */
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
