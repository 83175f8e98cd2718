#include "guard/block.h"

#include <string.h>

#include "base/report.h"
#include "os/os.h"

static bool is_exact(uint16_t shadow) { return (shadow & HK_BLOCK_BY) != 0; }

/* The bytes asked for if they are known, else the block's size. */
static size_t bytes_of(uint16_t shadow, size_t room) {
    return is_exact(shadow) ? room - (shadow >> HK_BLOCK_SLACK_SHIFT) : room;
}

/* What gave the block out (hk_by_t); 0: unknown. */
static unsigned by_of(uint16_t shadow) {
    return is_exact(shadow) ? shadow & HK_BLOCK_BY : (unsigned)shadow >> HK_BLOCK_VAGUE_SHIFT;
}

/* False, and a fault was reported: the tail is not whole, or the rest does not read as zero. */
static bool tail_is_whole(const char *p, uint16_t shadow, size_t room) {
    if (hk_guard->tail == 0 || !is_exact(shadow))
        return true;
    return hk_edges_are_whole(p, bytes_of(shadow, room), room, 0, hk_guard->zeroed);
}

/* The shadow of a block in use with n bytes. */
static uint16_t shadow_for(size_t n, size_t room, unsigned by) {
    const bool exact = by != 0 && room - n <= HK_BLOCK_MOST_SLACK;
    return exact ? (uint16_t)((room - n) << HK_BLOCK_SLACK_SHIFT | by)
                 : (uint16_t)(by << HK_BLOCK_VAGUE_SHIFT | HK_BLOCK_VAGUE);
}

static void write_tail(char *p, size_t n, size_t room, uint16_t shadow) {
    if (is_exact(shadow) && hk_guard->tail != 0)
        hk_tail_write(p, n, room);
}

/* Neighbouring blocks share pages, so a page is touched once. Of a long block, of which little may
 * be used, only the first and the last page are touched. */
void hk_block_touch(void **blocks, unsigned n, unsigned cls) {
    enum { LONG = 16 * HK_KIB };
    const size_t bytes = hk_min(hk_classes[cls].size, hk_guard->zeroed), page = hk_os_page_size();
    uintptr_t before = 0;
    for (unsigned i = 0; i < n; i++) {
        const uintptr_t start = (uintptr_t)blocks[i], end = start + bytes;
        const uintptr_t last = (end - 1) & ~(page - 1);
        if (HK_LIKELY(((start ^ before) | (last ^ before)) < page))
            continue;
        for (uintptr_t word = start; word < end;) {
            uint64_t zero = 0;
            if ((word ^ before) >= page)
                hk_cas_acquire((_Atomic uint64_t *)word, &zero, (uint64_t)0);
            before = word;
            word = (word | (page - 1)) + 1;
            if (bytes > LONG)
                word = hk_max(word, last);
        }
    }
}

void hk_block_clear_long(char *p, size_t n) {
    const size_t end = hk_min(n, hk_guard->zeroed);
    if (end <= hk_os_page_size())
        hk_zero(p, end);
    else
        hk_zero_written(p, end);
}

/* A block freed before the guard started was not cleared: it is cleared here. False: a fault was
 * reported. */
static bool is_clear(void *p, unsigned cls) {
    const size_t room = hk_classes[cls].size;
    const size_t at = hk_not_zero(p, hk_min(room, hk_guard->zeroed));
    if (HK_LIKELY(at == SIZE_MAX))
        return true;
    const bool early = hk_load_relaxed(hk_shadow_of(p, cls)) == HK_BLOCK_EARLY;
    if (!early)
        hk_guard_fault(HK_WRITE_AFTER_FREE, p, room, (ptrdiff_t)at);
    hk_zero(p, room);
    return early;
}

void hk_block_look(void *p, unsigned cls) { (void)is_clear(p, cls); }

/* Checks the block at p. True also if p is no block of the class, or a signal handler frees it
 * meanwhile. */
static bool is_as_left(char *p, unsigned cls) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_map_kind(p) == cls ? hk_shadow_of(p, cls) : NULL;
    const uint16_t is = shadow != NULL ? hk_load_relaxed(shadow) : HK_BLOCK_EARLY;
    if (is == HK_BLOCK_FREE)
        return is_clear(p, cls);
    const size_t bytes = bytes_of(is, room);
    const bool whole =
        hk_guard->tail == 0 || !is_exact(is) ||
        (hk_tail_is_whole(p, bytes, room) && hk_is_zero_behind(p, bytes, room, hk_guard->zeroed));
    atomic_signal_fence(memory_order_seq_cst);
    return HK_LIKELY(whole) || hk_load_relaxed(shadow) != is || tail_is_whole(p, is, room);
}

void hk_block_look_beside(char *p, unsigned cls) {
    const size_t room = hk_classes[cls].size;
    is_as_left(p - room, cls);
    is_as_left(p + room, cls);
}

bool hk_block_look_around(char *p) {
    enum { LONG = 16 * HK_KIB, AROUND = 64 };
    const unsigned cls = hk_map_kind(p);
    const size_t room = hk_kind_is_class(cls) ? hk_classes[cls].size : 0;
    bool whole = true;
    if (room - 1 >= LONG)
        return true;
    const size_t around = hk_max(AROUND / room, 1) * room;
    for (char *is = p - around; is <= p + around; is += room)
        whole &= is_as_left(is, cls);
    return whole;
}

/* Subtracts each block from `left`, a long one as several. The unused rest behind the last block is
 * checked too: an underflow of the next slab's first block writes there. */
static void look_at_blocks_of(const hk_slab_t *slab, unsigned *left) {
    const hk_class_t *c = &hk_classes[slab->cls];
    const size_t over = slab->slices * HK_SLICE - (size_t)c->blocks * c->size;
    char *p = slab->base;
    _Atomic uint16_t *shadow = hk_shadows_at(p)->shadow;
    for (unsigned i = 0; i < c->blocks && *left != 0; i++, p += c->size) {
        const uint16_t is = hk_load_relaxed(&shadow[i]);
        if (is == HK_BLOCK_FREE)
            hk_block_look(p, slab->cls);
        else
            tail_is_whole(p, is, c->size);
        *left = (unsigned)hk_minus(*left, 1 + c->size / HK_KIB);
    }
    const size_t at = *left != 0 && slab->zeroed ? hk_not_zero(p, over) : SIZE_MAX;
    if (at != SIZE_MAX)
        hk_guard_fault(HK_OVERFLOW, p - c->size, HK_NO_SIZE, (ptrdiff_t)(c->size + at));
}

/* A free slice that a slab left behind, cleared. */
static void look_at_slice(const char *slice, unsigned *left) {
    const size_t at = *left != 0 ? hk_not_zero(slice, HK_SLICE) : SIZE_MAX;
    if (at != SIZE_MAX)
        hk_guard_fault(HK_WRITE_AFTER_FREE, slice + at, HK_NO_SIZE, HK_NOWHERE);
    *left = (unsigned)hk_minus(*left, HK_SLICE / HK_KIB);
}

void hk_block_look_at_all(unsigned most) {
    hk_pool_cursor_t at = {0};
    while (most != 0 && hk_pool_next(&at)) {
        for (unsigned i = 0; i < at.count; i++)
            look_at_blocks_of(at.slabs[i], &most);
        for (uint32_t wiped = at.wiped; wiped != 0; wiped &= wiped - 1)
            look_at_slice(at.base + (size_t)__builtin_ctz(wiped) * HK_SLICE, &most);
    }
}

void hk_block_hand_out_any(hk_waiting_t is, unsigned cls, size_t n, hk_by_t by) {
    const size_t room = hk_classes[cls].size;
    const uint16_t shadow = shadow_for(n, room, by);
    hk_block_look(is.p, cls);
    write_tail(is.p, n, room, shadow);
    atomic_signal_fence(memory_order_seq_cst); /* a handler may end the process */
    hk_store_relaxed(is.shadow, shadow);
}

HK_COLD bool hk_block_take_back_odd(void *p, unsigned cls, hk_by_t by, size_t n) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    const uint16_t was = shadow != NULL ? hk_load_relaxed(shadow) : HK_BLOCK_FREE;
    if (was == HK_BLOCK_FREE || !hk_block_set_free(shadow, was)) {
        hk_guard_fault(shadow != NULL ? HK_DOUBLE_FREE : HK_INVALID_FREE, p, HK_NO_SIZE,
                       HK_NOWHERE);
        return false;
    }
    const size_t bytes = bytes_of(was, room);
    const bool whole = tail_is_whole(p, was, room);
    if (by_of(was) != 0)
        hk_guard_check_claims(p, bytes, by_of(was), by, is_exact(was) ? n : HK_ANY_SIZE);
    if (hk_guard->tail != 0 && is_exact(was)) /* it may lie beyond the bytes cleared below */
        hk_tail_clear(p, bytes, room);
    hk_block_clear_long(p, whole ? hk_min(hk_align_up(bytes + HK_TAIL_WINDOW, 16), room) : room);
    return true;
}

/* The block's shadow, or where nothing is in use. */
static _Atomic uint16_t *shadow_at(const void *p, unsigned cls) {
    return hk_shadow_in(p, cls, cls != 1);
}

/* What it says; HK_BLOCK_FREE: the block is not in use, and a fault was reported. */
static uint16_t in_use(const void *p, _Atomic uint16_t *shadow) {
    const uint16_t is = HK_LIKELY(shadow != NULL) ? hk_load_relaxed(shadow) : HK_BLOCK_FREE;
    if (HK_UNLIKELY(is == HK_BLOCK_FREE))
        hk_guard_fault(HK_INVALID_POINTER, p, HK_NO_SIZE, HK_NOWHERE);
    return is;
}

size_t hk_block_bytes(const void *p, unsigned cls) {
    const uint16_t is = in_use(p, shadow_at(p, cls));
    return is != HK_BLOCK_FREE ? bytes_of(is, hk_classes[cls].size) : 0;
}

size_t hk_block_known(const void *p, unsigned cls) {
    const uint16_t is = hk_load_relaxed(hk_shadow_of(p, cls));
    return is != HK_BLOCK_FREE ? bytes_of(is, hk_classes[cls].size) : HK_NO_SIZE;
}

bool hk_block_resize(void *p, unsigned cls, size_t n) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = shadow_at(p, cls);
    uint16_t was = in_use(p, shadow);
    if (was == HK_BLOCK_FREE || !tail_is_whole(p, was, room))
        return false;
    const size_t before = bytes_of(was, room);
    const unsigned by = (unsigned)hk_max(by_of(was), HK_BY_MALLOC);
    if (by != HK_BY_MALLOC)
        hk_guard_check_claims(p, before, by, HK_BY_MALLOC, HK_ANY_SIZE);
    const uint16_t now = shadow_for(n, room, by);
    if (!hk_cas_acquire(shadow, &was, now)) { /* another thread has freed it */
        hk_guard_fault(HK_INVALID_POINTER, p, HK_NO_SIZE, HK_NOWHERE);
        return false;
    }
    write_tail(p, n, room, now);
    if (n > before) /* memset may be an interposed one that asks for the block's size */
        memset((char *)p + before, 0, n - before);
    hk_clear_between(p, hk_tail_end(n, room), hk_tail_end(before, room));
    return true;
}

/* Reports an access at p beyond the slab at `slice`, as one of its last block (`behind`) or its
 * first. */
static bool report_beside(const char *slice, const char *p, bool behind) {
    const unsigned cls = hk_map_kind(slice);
    if (!hk_kind_is_class(cls))
        return false;
    const hk_class_t *c = &hk_classes[cls];
    const char *block = hk_slab_of(slice)->base + (behind ? (c->blocks - 1) * (size_t)c->size : 0);
    hk_fault_say(HK_OUT_OF_BOUNDS, block, hk_block_known(block, cls), p - block, c->size, "");
    return true;
}

bool hk_block_report(const void *p) {
    const unsigned kind = hk_map_kind(p);
    if (!hk_guarded() || (kind != HK_KIND_FOREIGN && kind != HK_KIND_FREE))
        return false;
    const size_t into = (uintptr_t)p % HK_SLICE;
    const char *own = (const char *)p - into, *before = own - HK_SLICE, *after = own + HK_SLICE;
    return into < HK_SLICE / 2 ? report_beside(before, p, true) || report_beside(after, p, false)
                               : report_beside(after, p, false) || report_beside(before, p, true);
}
