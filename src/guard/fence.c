#include "guard/fence.h"

#include <string.h>

#include "backend/advise.h"
#include "backend/hugepages.h"
#include "backend/large.h"
#include "backend/limit.h"
#include "backend/mappings.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "base/report.h"
#include "config/config.h"
#include "guard/header.h"
#include "guard/nothing.h"
#include "guard/sample.h"
#include "guard/tail.h"
#include "os/os.h"
#include "stats/counters.h"

static _Atomic size_t kept_bytes; /* atomic: any thread; of bodies with memory that are free */

/* ---- mappings, of which a process has so many ----
 *
 * A fenced block takes several. Nothing is fenced unless some are left to spare for blocks without
 * fences, which must still be had when there are no more. */

static atomic_uint patience; /* after a refusal, blocks left that have none (backend/mappings.h) */

/* ---- blocks with bytes ---- */

/* Where a block and its body lie in a mapping that starts at `start`. */
static hk_header_t laid_out(char *start, size_t bytes, size_t body_bytes, size_t n, size_t align) {
    enum { FENCE_PAGES = 8 };
    const size_t page = hk_os_page_size();
    hk_header_t header = {.start = start, .bytes = bytes, .body_bytes = body_bytes, .n = n};
    if (align > page) {
        header.body = hk_align_up((uintptr_t)start + 2 * page, align) - (uintptr_t)start;
        return header;
    }
    const size_t left = (bytes - body_bytes) / page - 3; /* the header, a page before, one behind */
    header.body = (2 + hk_guard_chance((uint32_t)hk_min(left, FENCE_PAGES - 1) + 1)) * page;
    header.block = body_bytes - hk_align_up(n, hk_max(align, 16));
    return header;
}

static size_t room_of(const hk_header_t *header) { return header->body_bytes - header->block; }

/* As a block of that size has them where it is not fenced. */
static void ask_for_huge_pages(const hk_header_t *laid) {
    const hk_os_range_t body = {hk_header_body(laid), laid->body_bytes};
    if (body.bytes < HK_HUGE_PAGES_FROM || hk_option(thp) == 0)
        return;
    if (!hk_huge_pages_fill(body.bytes) || !hk_huge_pages_pay()) {
        hk_huge_pages_pass(body.bytes);
        return;
    }
    hk_advise(&body, 1, HK_HUGE_PAGES);
    hk_huge_pages_try(body.start, body.bytes);
}

/* A body that can be written to, and is zero, is somebody's block now. */
static void *given_out(hk_header_t *header) {
    char *block = hk_header_block(header);
    hk_header_seal(header);
    hk_tail_write(block, header->n, room_of(header));
    hk_count(guard_fences, 1);
    hk_single_comes(header->bytes);
    hk_store_release(&header->state, (unsigned)HK_HEADER_OUT);
    return block;
}

static void *publish(const hk_header_t *laid) {
    const char *block = hk_header_block(laid);
    hk_header_t *header = hk_slice_before(block);
    if (!hk_os_protect(header, hk_os_page_size(), HK_READ_WRITE) ||
        !hk_os_protect(hk_header_body(laid), laid->body_bytes, HK_READ_WRITE))
        return NULL;
    *header = *laid;
    ask_for_huge_pages(laid);
    hk_map_set(laid->start, laid->bytes / HK_SLICE, HK_KIND_INTERIOR);
    hk_map_set((char *)((uintptr_t)block & ~(uintptr_t)(HK_SLICE - 1)), 1, HK_KIND_FENCED);
    return given_out(header);
}

/* Of one that is free and open: has somebody written to it? */
static void look(const hk_header_t *header) {
    char *body = hk_header_body(header), *end = body + header->body_bytes, *at = body;
    while (at < end && hk_is_clear(at, HK_CLEAR_STEPS))
        at += HK_CLEAR_STEPS * HK_CLEAR_STEP;
    if (HK_LIKELY(at == end))
        return;
    at += hk_not_zero(at, (size_t)(end - at));
    hk_guard_fault(HK_WRITE_AFTER_FREE, body + header->block, header->n,
                   at - body - (ptrdiff_t)header->block);
    hk_zero(body, header->body_bytes);
}

/* What somebody has written to says nothing that is of use: it is left where it is. */
static bool is_whole(const hk_header_t *header) {
    const bool whole = hk_header_is_sealed(header);
    if (HK_UNLIKELY(!whole))
        hk_guard_fault(HK_UNDERFLOW, header, HK_NO_SIZE, HK_NOWHERE);
    return whole;
}

static void unmap(const hk_header_t *header) {
    if (!is_whole(header))
        return;
    const hk_header_t h = *header;
    if (h.open)
        look(header);
    if (h.keeps)
        hk_sub_relaxed(&kept_bytes, h.body_bytes);
    hk_map_set(h.start, h.bytes / HK_SLICE, HK_KIND_FOREIGN);
    hk_os_unmap(h.start, h.bytes);
}

/* Freed ones wait here, so many at most and of so much address space each, less where that is limited; not where mappings are
 * few. The smaller ones keep their memory, so much in all, and when they have waited may be had again. The larger they are
 * the fewer of them wait with their memory, or the next ones would find none. */
#define WAITS_UP_TO (4096 * HK_MIB)
#define WAITS_LIMITED_UP_TO HK_MIB
#define KEEPS_IN_ALL (12 * HK_MIB)
#define KEEPS_UP_TO (KEEPS_IN_ALL / (FEW_PLACES + 2))
#define KEEPS_BELOW (HK_SLICE / 4 * 3) /* where the body starts in its slice */
enum { PLACES = 32, FEW_PLACES = 3, KEPT = 64 };
static _Atomic(hk_header_t *) waiting[PLACES]; /* atomic: any thread */
/* atomic: any thread; headers, which start slices, and in the bits below something of what body and mapping they have. 0: none */
static _Atomic uintptr_t kept[KEPT];
enum { MOST_MORE = 64 };
_Static_assert((KEEPS_UP_TO / 4096 + 1) * MOST_MORE <= HK_SLICE, "room for both");

/* 0: none that is kept has such a shape, as where a mapping is larger than its body by MOST_MORE slices and more. */
static uintptr_t shape_of(size_t body_bytes, size_t bytes) {
    const size_t more = (bytes - body_bytes) / HK_SLICE;
    return body_bytes <= KEEPS_UP_TO && more < MOST_MORE
               ? body_bytes / hk_os_page_size() * MOST_MORE | more
               : 0;
}

/* Whoever has the place now; 0: nobody. Who had it goes. */
static void keep_at(unsigned i, uintptr_t is) {
    const uintptr_t was = hk_exchange_seq(&kept[i], is);
    if (was != 0)
        unmap((hk_header_t *)(was & ~(uintptr_t)(HK_SLICE - 1)));
}

void hk_fence_trim(void) {
    for (unsigned i = 0; i < PLACES; i++) {
        hk_header_t *header = hk_exchange_seq(&waiting[i], NULL);
        if (header != NULL)
            unmap(header);
    }
    for (unsigned i = 0; i < KEPT; i++)
        keep_at(i, 0);
}

/* So that a block without fences can be had. */
static void let_go(void) {
    hk_fence_trim();
    hk_store_relaxed(&patience, (unsigned)HK_PATIENCE);
    hk_mappings_let_go();
    hk_region_save_mappings();
}

/* The addresses that a block which grows may grow by, at most. */
#define GROWS_BY (256 * HK_MIB)

static size_t body_for(size_t n) { return hk_align_up(hk_max(n, 1), hk_os_page_size()); }

static size_t mapping_for(size_t n, size_t align, size_t headroom) {
    const size_t page = hk_os_page_size();
    return hk_align_up(body_for(n) + headroom + 3 * page + (align > page ? align : 0), HK_SLICE);
}

static void *alloc(size_t n, size_t align, size_t bytes, hk_by_t by) {
    const size_t body = body_for(n);
    char *fence = hk_mappings_to_spare() ? hk_os_fence(bytes, HK_SLICE) : NULL;
    char *start = hk_map_committed(fence, bytes);
    if (start == NULL)
        return NULL;
    hk_header_t header = laid_out(start, bytes, body, n, align);
    header.by = by;
    void *p = publish(&header);
    if (p == NULL)
        hk_os_unmap(start, bytes);
    return p;
}

/* Where there is no place, one that chance finds goes. */
static void keep(hk_header_t *header) {
    const uintptr_t is = (uintptr_t)header | shape_of(header->body_bytes, header->bytes);
    for (unsigned i = 0; i < KEPT; i++) {
        uintptr_t none = 0;
        if (hk_load_relaxed(&kept[i]) == 0 && hk_cas_seq(&kept[i], &none, is))
            return;
    }
    keep_at(hk_guard_chance(KEPT), is);
}

/* One that is kept, whose shape is that or up to so much more. */
static hk_header_t *kept_up_to(uintptr_t shape, size_t larger) {
    for (unsigned i = 0; i < KEPT && shape != 0; i++) {
        uintptr_t is = hk_load_relaxed(&kept[i]);
        const uintptr_t has = is % HK_SLICE;
        if (has >= shape && has <= shape + larger && has % MOST_MORE == shape % MOST_MORE &&
            hk_cas_seq(&kept[i], &is, (uintptr_t)0))
            return (hk_header_t *)(is - has);
    }
    return NULL;
}

/* Of such a body and mapping; or else of a little larger ones, so that the block starts in the same slice all the same. */
static hk_header_t *kept_one(size_t body_bytes, size_t bytes) {
    const uintptr_t shape = shape_of(body_bytes, bytes);
    const size_t larger = hk_min(body_bytes / 8, HK_SLICE - KEEPS_BELOW) / hk_os_page_size();
    hk_header_t *header = kept_up_to(shape, 0);
    return header != NULL ? header : kept_up_to(shape, larger * MOST_MORE);
}

/* In the same pages as one that has waited; NULL: there is none. */
static void *alloc_again(size_t n, size_t align, size_t bytes, hk_by_t by) {
    hk_header_t *header = align <= hk_os_page_size() ? kept_one(body_for(n), bytes) : NULL;
    if (header == NULL || !is_whole(header))
        return NULL;
    const size_t body = header->body_bytes;
    const size_t more = header->bytes - bytes;
    hk_assert(header->bytes >= bytes); /* as much besides a body that is as large */
    if (more != 0 && !hk_held_take(more, 0)) {
        unmap(header);
        return NULL;
    }
    if (header->open) {
        look(header);
    } else if (hk_os_protect(hk_header_body(header), body, HK_READ_WRITE)) {
        hk_zero(hk_header_body(header), body);
    } else {
        unmap(header);
        hk_held_drop(more);
        return NULL;
    }
    hk_sub_relaxed(&kept_bytes, body);
    header->keeps = header->open = false;
    header->block = body - hk_align_up(n, hk_max(align, 16));
    header->n = n;
    header->by = by;
    return given_out(header);
}

void *hk_fence_alloc(size_t n, size_t align, bool grows, hk_by_t by) {
    void *p =
        n == 0 && align <= HK_NOTHING_BYTES ? hk_nothing_take(hk_guard_chance(HK_NOTHINGS)) : NULL;
    if (p != NULL || !hk_mappings_may(&patience))
        return p;
    const size_t headroom = grows && !hk_region_is_bounded() ? hk_min(n, GROWS_BY) : 0;
    const size_t bytes = mapping_for(n, align, headroom);
    if (HK_UNLIKELY(!hk_held_take(bytes, 0)))
        return NULL; /* without fences it may fit */
    p = alloc_again(n, align, bytes, by);
    if (p == NULL)
        p = alloc(n, align, bytes, by);
    if (HK_UNLIKELY(p == NULL)) {
        hk_held_drop(bytes);
        let_go();
    }
    return p;
}

static bool take_room(size_t bytes) {
    if (hk_add_relaxed(&kept_bytes, bytes) + bytes <= KEEPS_IN_ALL)
        return true;
    hk_sub_relaxed(&kept_bytes, bytes);
    return false;
}

/* Nobody may want what is kept: the next one from a place of chance on makes room for others. */
static void let_go_of_any(void) {
    const unsigned from = hk_guard_chance(KEPT);
    for (unsigned i = 0; i < KEPT; i++)
        if (hk_load_relaxed(&kept[(from + i) % KEPT]) != 0) {
            keep_at((from + i) % KEPT, 0);
            return;
        }
}

/* To close a body and open it again takes two calls, each of which stops the process's other threads: where buffers come and
 * go all the time, longer than all else. So what it may take is bounded: a millisecond is worth a closing, up to a few are saved, and
 * the part of all that chance finds in what is saved is closed. The others are cleared. */
static bool may_be_open(void) {
    enum { SAVED = 64 };
    static _Atomic uint64_t used_up_to; /* atomic: any thread; so many milliseconds' worth */
    const uint64_t now = hk_os_now_ms();
    uint64_t before = hk_load_relaxed(&used_up_to);
    const uint64_t used = hk_max(before, now);
    return hk_guard_chance(SAVED) >= hk_minus(now + SAVED, used) ||
           !hk_cas_seq(&used_up_to, &before, used + 1); /* another thread closes one */
}

/* Nobody can read what was in the body any more, nor write to it unless it is open. (One of large alignment may begin in
 * another slice.) */
static bool close_body(hk_header_t *header) {
    char *body = hk_header_body(header);
    const size_t bytes = header->body_bytes;
    const bool may = shape_of(bytes, header->bytes) != 0 && header->body < KEEPS_BELOW &&
                     !hk_region_is_bounded();
    bool keeps = may && take_room(bytes);
    for (unsigned i = 0; i < FEW_PLACES && may && !keeps; i++) {
        let_go_of_any();
        keeps = take_room(bytes);
    }
    if (hk_region_is_bounded()) /* since it was not */
        let_go_of_any();
    const bool open = keeps && may_be_open();
    if (open)
        hk_zero(body, bytes);
    header->open = open; /* and clear: a handler may end the process */
    header->keeps = keeps && (open || hk_os_protect(body, bytes, HK_NO_ACCESS));
    if (keeps && !header->keeps)
        hk_sub_relaxed(&kept_bytes, bytes);
    return header->keeps || hk_os_close(body, bytes);
}

/* In how many places it may wait. */
static unsigned places_of(const hk_header_t *header) {
    const size_t half = KEEPS_IN_ALL / 2 / header->body_bytes;
    return header->keeps ? (unsigned)HK_CLAMP(half, FEW_PLACES, PLACES) : PLACES;
}

static void wait_or_go(hk_header_t *header) {
    const bool few = hk_region_is_bounded() || hk_load_relaxed(&hk_map_is_limited);
    const size_t most = few ? WAITS_LIMITED_UP_TO : WAITS_UP_TO;
    const bool waits = header->bytes <= most && hk_load_relaxed(&patience) == 0;
    if (waits && close_body(header))
        header = hk_exchange_seq(&waiting[hk_guard_chance(places_of(header))], header);
    if (header != NULL && header->keeps)
        keep(header);
    else if (header != NULL)
        unmap(header);
}

/* The header of the block at p that is out; NULL: a fault was reported. */
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
    hk_held_drop(header->bytes);
    if (header->n >= HK_HUGE_PAGES_FROM && hk_option(thp) != 0)
        hk_huge_pages_learn(p, header->n, true);
    wait_or_go(header);
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
            look(header);
    }
}

void hk_fence_finish(void) {
    if (hk_singles().blocks != 0 || hk_load_relaxed(&kept_bytes) != 0)
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

/* In the slice in which the block starts; further on the fence will do. */
size_t hk_fence_room(const void *p, const void **block) {
    if (hk_sample_has(p) || hk_nothing_has(p))
        return SIZE_MAX;
    const hk_header_t *header = hk_header_of(p);
    const char *start = header != NULL ? hk_header_block(header) : NULL;
    if (start == NULL || (const char *)p < start)
        return SIZE_MAX;
    *block = start;
    const size_t bytes = hk_load_relaxed(&header->state) == HK_HEADER_OUT ? header->n : 0;
    return bytes - hk_min(bytes, (size_t)((const char *)p - start));
}

/* Makes more of the mapping accessible, all but its last page. */
static bool grow(hk_header_t *header, size_t n) {
    const size_t page = hk_os_page_size();
    char *end = hk_header_body(header) + header->body_bytes;
    if (n > header->bytes - page - header->body - header->block)
        return false;
    const size_t more = hk_align_up(n - room_of(header), page);
    if (!hk_os_protect(end, more, HK_READ_WRITE))
        return false;
    header->body_bytes += more;
    return true;
}

/* The block is shorter than it was: whole pages go, and what was behind the new end is cleared. */
static void cut(hk_header_t *header, size_t before) {
    char *block = hk_header_block(header), *end = hk_header_body(header) + header->body_bytes;
    char *last = (char *)hk_align_up((uintptr_t)block + header->n, hk_os_page_size());
    const size_t ended = hk_tail_end(before, room_of(header));
    if (last < end && hk_os_close(last, (size_t)(end - last)))
        header->body_bytes -= (size_t)(end - last);
    const size_t room = room_of(header);
    hk_clear_between(block, hk_tail_end(header->n, room), hk_min(ended, room));
}

bool hk_fence_resize(void *p, size_t n, bool half) {
    hk_header_t *header =
        !hk_sample_has(p) && !hk_nothing_has(p) ? in_use(p, HK_INVALID_POINTER) : NULL;
    if (header == NULL || !edges_are_whole(header) || (half && n < header->n / 2))
        return false;
    if (n > room_of(header) && !grow(header, n))
        return false;
    const size_t before = header->n;
    hk_guard_check_claims(p, before, (hk_by_t)header->by, HK_BY_MALLOC, HK_ANY_SIZE);
    header->n = n;
    if (n < before)
        cut(header, before);
    hk_header_seal(header);
    hk_tail_write(p, n, room_of(header));
    if (n > before) /* what was the tail reads as the rest does */
        memset((char *)p + before, 0, hk_min(n - before, HK_TAIL_WINDOW));
    return true;
}

bool hk_fence_report(const void *p) {
    if (hk_nothing_has(p)) {
        const char *block = (const char *)p - (uintptr_t)p % HK_NOTHING_BYTES;
        hk_fault_say(hk_nothing_is_out(block) ? HK_OUT_OF_BOUNDS : HK_USE_AFTER_FREE, block, 0,
                     (const char *)p - block, HK_NO_SIZE, "");
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
