#include "guard/fence.h"

#include <string.h>

#include "backend/advise.h"
#include "backend/hoard.h"
#include "backend/hugepages.h"
#include "backend/large.h"
#include "backend/limit.h"
#include "backend/mappings.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"
#include "guard/freed.h"
#include "guard/header.h"
#include "guard/nothing.h"
#include "guard/sample.h"
#include "guard/tail.h"
#include "os/os.h"

/* ---- mappings, whose number is limited for a process ----
 *
 * A fenced block takes several. Nothing is fenced unless some mappings are spare for blocks without
 * fences, which must still be had when there are no more. */

static atomic_uint patience; /* after a refusal: blocks left to go without fences */

/* ---- blocks with bytes ---- */

/* A header for a block in a mapping that starts at `start`: places its body, at random, and the
 * block. */
static hk_header_t laid_out(char *start, size_t bytes, size_t body_bytes, size_t n, size_t align) {
    enum { FENCE_PAGES = 8 };
    const size_t page = hk_os_page_size();
    hk_header_t header = {.start = start, .bytes = bytes, .body_bytes = body_bytes, .n = n};
    if (align > page) {
        header.body = hk_align_up((uintptr_t)start + page, align) - (uintptr_t)start;
        return header;
    }
    const size_t left = (bytes - body_bytes) / page - 2; /* a page before, one behind */
    header.body = (1 + hk_guard_chance((uint32_t)hk_min(left, FENCE_PAGES - 1) + 1)) * page;
    header.block = body_bytes - hk_align_up(n, hk_max(align, 16));
    return header;
}

static size_t room_of(const hk_header_t *header) { return header->body_bytes - header->block; }

/* As for a block of that size without fences. */
static void ask_for_huge_pages(const hk_header_t *laid) {
    char *body = hk_header_body(laid);
    const size_t bytes = laid->body_bytes;
    if (bytes < HK_HUGE_PAGES_FROM || hk_option(thp) == 0)
        return;
    if (!hk_huge_pages_fill(bytes) || !hk_huge_pages_pay()) {
        hk_huge_pages_pass(bytes);
        return;
    }
    hk_advise(body, bytes, HK_HUGE_PAGES);
    hk_huge_pages_try(body, bytes);
}

/* Seals the header and gives the block out; its body is writable and zero. */
static void *given_out(hk_header_t *header) {
    char *block = hk_header_block(header);
    hk_header_seal(header);
    hk_tail_write(block, header->n, room_of(header));
    hk_count(guard_fences, 1);
    hk_single_comes(header->bytes);
    hk_freed_note(header->n, 0);
    hk_store_release(&header->state, (unsigned)HK_HEADER_OUT);
    return block;
}

/* Pages that were moved there are inaccessible, with or without marks. */
static bool open_body(const hk_header_t *laid, bool moved) {
    char *body = hk_header_body(laid), *end = body + laid->body_bytes;
    if (laid->marked && (!hk_os_mark(laid->start, laid->body) ||
                         !hk_os_mark(end, laid->bytes - laid->body - laid->body_bytes)))
        return false;
    return (laid->marked && !moved) || hk_os_protect(body, laid->body_bytes, HK_READ_WRITE);
}

/* Makes the block's header and gives it out. The first `dirty` bytes of its body may hold old data.
 * NULL: refused. */
static void *publish(const hk_header_t *laid, size_t dirty) {
    const char *block = hk_header_block(laid);
    hk_header_t *header = hk_header_make(block);
    if (header == NULL || !open_body(laid, dirty != 0))
        return NULL;
    if (dirty != 0)
        hk_hoard_learn(dirty, hk_zero_written(hk_header_body(laid), dirty));
    *header = *laid;
    ask_for_huge_pages(laid);
    hk_map_set(laid->start, laid->bytes / HK_SLICE, HK_KIND_INTERIOR);
    hk_map_set((char *)((uintptr_t)block & ~(uintptr_t)(HK_SLICE - 1)), 1, HK_KIND_FENCED);
    return given_out(header);
}

/* Lets go of freed blocks and spare mappings, so that a block without fences can be had. Only if
 * mappings are short do the next blocks go without fences. */
static void let_go(void) {
    hk_freed_trim();
    hk_mappings_let_go();
    if (hk_mappings_to_spare() || !hk_mappings_are_short())
        return;
    hk_store_relaxed(&patience, (unsigned)HK_PATIENCE);
    hk_region_save_mappings();
}

/* The most addresses for a block to grow into; and the size from which hk_limit_excludes() is asked
 * before anything is mapped. */
#define GROWS_BY (256 * HK_MIB)
#define ASKED_FOR (1024 * HK_MIB)

static size_t body_for(size_t n) { return hk_align_up(hk_max(n, 1), hk_os_page_size()); }

static size_t mapping_for(size_t n, size_t align, size_t headroom) {
    const size_t page = hk_os_page_size();
    return hk_align_up(body_for(n) + headroom + 2 * page + (align > page ? align : 0), HK_SLICE);
}

/* Marks cost memory per page, and the whole mapping counts for strict accounting. */
static bool fences_by_marks(size_t fences) {
    enum { MOST = 256 * HK_KIB };
    return fences <= MOST && !hk_region_is_bounded() && hk_os_marks();
}

static void *alloc(size_t n, size_t align, size_t bytes, hk_by_t by, bool marked) {
    const size_t body = body_for(n);
    char *fence = NULL;
    if (hk_mappings_to_spare())
        fence = marked ? hk_os_map(bytes, HK_SLICE) : hk_os_fence(bytes, HK_SLICE);
    char *start = hk_map_committed(fence, bytes);
    if (start == NULL)
        return NULL;
    hk_header_t header = laid_out(start, bytes, body, n, align);
    header.by = by;
    header.marked = marked;
    size_t dirty;
    if (!hk_hoard_hand_out(hk_header_body(&header), body, &dirty)) {
        hk_os_unmap(start, header.body); /* the pages between may be another mapping by now */
        hk_os_unmap(start + header.body + body, bytes - header.body - body);
        return NULL;
    }
    void *p = publish(&header, dirty);
    if (p == NULL)
        hk_os_unmap(start, bytes);
    return p == NULL && marked ? alloc(n, align, bytes, by, false) : p;
}

/* Reuses the pages of a freed block; NULL: none fits. */
static void *alloc_again(size_t n, size_t align, size_t bytes, hk_by_t by) {
    hk_header_t *header = align <= hk_os_page_size() ? hk_freed_take(body_for(n), bytes) : NULL;
    if (header == NULL)
        return NULL;
    header->block = header->body_bytes - hk_align_up(n, hk_max(align, 16));
    header->n = n;
    header->by = by;
    return given_out(header);
}

/* Counts the bytes as held; at the limit, freed blocks are given back first. */
static bool hold(size_t bytes) {
    if (HK_LIKELY(hk_held_take(bytes, 0)))
        return true;
    if (!hk_freed_any() || hk_limit_excludes(bytes, 0))
        return false;
    hk_freed_trim();
    return hk_held_take(bytes, 0);
}

void *hk_fence_alloc(size_t n, size_t align, bool grows, hk_by_t by) {
    if (n == 0 && align <= HK_NOTHING_BYTES)
        return hk_nothing_take(hk_guard_chance(HK_NOTHINGS));
    if (!hk_mappings_may(&patience))
        return NULL;
    const size_t headroom = grows && !hk_region_is_bounded() ? hk_min(n, GROWS_BY) : 0;
    const size_t bytes = mapping_for(n, align, headroom);
    void *p = alloc_again(n, align, bytes, by);
    if (p != NULL)
        return p;
    /* mapping so much takes long by itself, and a request that cannot be met must not cost
     * others */
    if (HK_UNLIKELY(bytes >= ASKED_FOR && hk_limit_excludes(bytes, 0)))
        return NULL;
    if (HK_UNLIKELY(!hold(bytes)))
        return NULL; /* without fences it may fit */
    p = alloc(n, align, bytes, by, fences_by_marks(bytes - body_for(n)));
    if (HK_UNLIKELY(p == NULL)) {
        hk_held_drop(bytes);
        if (!hk_limit_excludes(bytes, 0))
            let_go();
    }
    return p;
}

/* The header of the block in use at p; NULL: there is none, and a fault was reported. */
static hk_header_t *in_use(const void *p, hk_fatal_t if_not) {
    hk_header_t *header = hk_header_of(p);
    if (header != NULL && hk_header_block(header) == p &&
        hk_load_relaxed(&header->state) == HK_HEADER_OUT)
        return header;
    hk_guard_fault(if_not, p, HK_NO_SIZE, HK_NOWHERE);
    return NULL;
}

static bool edges_are_whole(const hk_header_t *header) {
    return hk_edges_are_whole(hk_header_block(header), header->n, room_of(header), header->block,
                              SIZE_MAX);
}

void hk_fence_free(void *p, hk_by_t by, size_t n) {
    if (hk_sample_has(p)) {
        hk_sample_free(p, by, n);
        return;
    }
    if (hk_nothing_has(p)) {
        hk_nothing_give(p);
        return;
    }
    hk_header_t *header = hk_header_of(p);
    unsigned out = HK_HEADER_OUT;
    if (header == NULL || hk_header_block(header) != p) {
        hk_guard_fault(HK_INVALID_FREE, p, HK_NO_SIZE, HK_NOWHERE);
        return;
    }
    if (!hk_cas_acquire(&header->state, &out, (unsigned)HK_HEADER_FREE)) {
        hk_guard_fault(HK_DOUBLE_FREE, p, header->n, HK_NOWHERE);
        return;
    }
    edges_are_whole(header);
    hk_guard_check_claims(p, header->n, (hk_by_t)header->by, by, n);
    hk_single_goes(header->bytes);
    hk_freed_note(0, header->n);
    if (header->n >= HK_HUGE_PAGES_FROM && hk_option(thp) != 0)
        hk_huge_pages_learn(p, header->n, true);
    hk_freed_give(header, hk_load_relaxed(&patience) == 0);
}

static void look_at(const char *start, size_t slices, const _Atomic uint8_t *kinds, void *unused) {
    (void)unused;
    for (size_t i = 0; i < slices; i++) {
        const char *p = start + i * HK_SLICE + 1;
        if (hk_load_relaxed(&kinds[i]) != HK_KIND_FENCED || hk_sample_has(p) || hk_nothing_has(p))
            continue;
        const hk_header_t *header = hk_header_around(p);
        if (header != NULL && hk_load_relaxed(&header->state) == HK_HEADER_OUT)
            edges_are_whole(header);
        else if (header != NULL && header->open)
            hk_freed_look(header);
    }
}

void hk_fence_finish(void) {
    if (hk_singles().blocks != 0 || hk_freed_any())
        hk_map_visit(look_at, NULL);
}

size_t hk_fence_bytes(const void *p) {
    if (hk_sample_has(p))
        return hk_sample_bytes(p);
    if (hk_nothing_has(p)) {
        if (!hk_nothing_is_out(p))
            hk_guard_fault(HK_INVALID_POINTER, p, 0, HK_NOWHERE);
        return 0;
    }
    const hk_header_t *header = in_use(p, HK_INVALID_POINTER);
    return header != NULL ? header->n : 0;
}

/* Knows p only in the slice in which the block starts; an overflow further on hits the fence. */
hk_around_t hk_fence_around(const void *p) {
    const bool none = hk_sample_has(p) || hk_nothing_has(p);
    const hk_header_t *header = none ? NULL : hk_header_of(p);
    const char *start = header != NULL ? hk_header_block(header) : NULL;
    if (start == NULL || (const char *)p < start)
        return (hk_around_t){NULL, HK_NO_SIZE};
    const bool out = hk_load_relaxed(&header->state) == HK_HEADER_OUT;
    return (hk_around_t){start, out ? header->n : HK_NO_SIZE};
}

/* Makes more of the mapping accessible, up to its last page, which stays a fence. */
static bool grow(hk_header_t *header, size_t n) {
    const size_t page = hk_os_page_size();
    char *end = hk_header_body(header) + header->body_bytes;
    if (n > header->bytes - page - header->body - header->block)
        return false;
    const size_t more = hk_align_up(n - room_of(header), page);
    if (!(header->marked ? hk_os_unmark(end, more) : hk_os_protect(end, more, HK_READ_WRITE)))
        return false;
    header->body_bytes += more;
    return true;
}

/* After the block was made shorter: whole pages become fence, and bytes behind the new end are
 * cleared. */
static void cut(hk_header_t *header, size_t before) {
    char *block = hk_header_block(header), *end = hk_header_body(header) + header->body_bytes;
    char *last = (char *)hk_align_up((uintptr_t)block + header->n, hk_os_page_size());
    const size_t ended = hk_tail_end(before, room_of(header));
    if (last < end && hk_header_close(header, last, (size_t)(end - last)))
        header->body_bytes -= (size_t)(end - last);
    const size_t room = room_of(header);
    hk_clear_between(block, hk_tail_end(header->n, room), hk_min(ended, room));
}

bool hk_fence_resize(void *p, size_t n, bool half) {
    if (hk_sample_has(p))
        return !half && hk_sample_cut(p, n);
    hk_header_t *header = !hk_nothing_has(p) ? in_use(p, HK_INVALID_POINTER) : NULL;
    if (header == NULL || !edges_are_whole(header) || (half && n < header->n / 2))
        return false;
    if (n > room_of(header) && !grow(header, n))
        return false;
    const size_t before = header->n;
    hk_guard_check_claims(p, before, (hk_by_t)header->by, HK_BY_MALLOC, HK_ANY_SIZE);
    header->n = n;
    hk_freed_note(n, before);
    if (n < before)
        cut(header, before);
    hk_header_seal(header);
    hk_tail_write(p, n, room_of(header));
    if (n > before) /* the old tail must read as zero, as the rest does */
        memset((char *)p + before, 0, hk_min(n - before, HK_TAIL_WINDOW));
    return true;
}

/* The block of no bytes that an access at p is blamed on: the one at or before p or, if that is not
 * in use and p is not its start, the next one if that is in use. */
static const char *nothing_near(const char *p) {
    const size_t into = (uintptr_t)p % HK_NOTHING_BYTES;
    const char *own = p - into, *next = own + HK_NOTHING_BYTES;
    const bool before = into != 0 && !hk_nothing_is_out(own) && hk_nothing_has(next);
    return before && hk_nothing_is_out(next) ? next : own;
}

static void report_nothing(const char *p) {
    const char *block = nothing_near(p);
    if (!hk_nothing_was_out(block)) /* it is unknown which block it overran */
        hk_fault_say(HK_OUT_OF_BOUNDS, p, HK_NO_SIZE, HK_NOWHERE, HK_NO_SIZE, "");
    else
        hk_fault_say(hk_nothing_is_out(block) ? HK_OUT_OF_BOUNDS : HK_USE_AFTER_FREE, block, 0,
                     p - block, HK_NO_SIZE, "");
}

bool hk_fence_report(const void *p) {
    if (hk_nothing_has(p)) {
        report_nothing(p);
        return true;
    }
    const unsigned kind = hk_map_kind(p);
    const hk_header_t *header =
        kind == HK_KIND_FENCED || kind == HK_KIND_INTERIOR ? hk_header_around(p) : NULL;
    if (header == NULL)
        return false;
    const char *block = hk_header_block(header);
    hk_fault_say(hk_load_relaxed(&header->state) == HK_HEADER_OUT ? HK_OUT_OF_BOUNDS
                                                                  : HK_USE_AFTER_FREE,
                 block, header->n, (const char *)p - block, HK_NO_SIZE, "");
    return true;
}
