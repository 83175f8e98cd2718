#include "guard/block.h"

#include <string.h>

#include "base/report.h"
#include "os/os.h"

/* The bytes asked for, as far as they are known. */
static size_t bytes_of(uint16_t shadow, size_t room) {
    return hk_block_is_exact(shadow) ? room - (shadow >> HK_BLOCK_SLACK_SHIFT) : room;
}

static bool is_in_use(uint16_t shadow) {
    return hk_block_is_out(shadow) || shadow == HK_BLOCK_EARLY;
}

/* False: the tail is not whole. */
static bool tail_is_whole(const char *p, uint16_t shadow, size_t room) {
    if (hk_guard->tail == 0 || !hk_block_is_exact(shadow))
        return true;
    const size_t n = bytes_of(shadow, room);
    const size_t at = hk_tail_broken(p, n, room);
    if (HK_LIKELY(at == SIZE_MAX))
        return true;
    hk_fault(HK_OVERFLOW, p, n, (ptrdiff_t)at);
    return false;
}

void hk_block_touch(void *p, unsigned cls) {
    const size_t bytes = hk_min(hk_classes[cls].size, hk_guard->zeroed);
    _Atomic uint64_t *word = p, *last = word + bytes / sizeof *word - 1;
    uint64_t zero = 0;
    if (bytes == 0)
        return;
    hk_cas_acquire(word, &zero, (uint64_t)0);
    zero = 0;
    if (((uintptr_t)word ^ (uintptr_t)last) >= hk_os_page_size())
        hk_cas_acquire(last, &zero, (uint64_t)0);
}

/* Who freed it early did not clear it. */
HK_COLD void *hk_block_hand_out_odd(void *p, unsigned cls, size_t n, hk_by_t by) {
    const size_t room = hk_classes[cls].size, at = hk_not_zero(p, hk_min(room, hk_guard->zeroed));
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    if (at != SIZE_MAX && hk_load_relaxed(shadow) != HK_BLOCK_EARLY)
        hk_fault(HK_WRITE_AFTER_FREE, p, room, (ptrdiff_t)at);
    hk_zero(p, room);
    hk_block_mark(p, n, room, shadow, by);
    return p;
}

HK_COLD bool hk_block_take_back_odd(void *p, unsigned cls, hk_by_t by, size_t n) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    if (shadow == NULL) {
        hk_fault(HK_INVALID_FREE, p, HK_NO_SIZE, HK_NOWHERE);
        return false;
    }
    const uint16_t was = hk_load_relaxed(shadow);
    if (!is_in_use(was) || !hk_block_set_free(shadow, was)) {
        hk_fault(HK_DOUBLE_FREE, p, HK_NO_SIZE, HK_NOWHERE);
        return false;
    }
    tail_is_whole(p, was, room);
    if (hk_block_is_out(was))
        hk_guard_check_claims(p, bytes_of(was, room), was & HK_BLOCK_BY, by,
                              hk_block_is_exact(was) ? n : HK_ANY_SIZE);
    hk_zero(p, hk_min(room, hk_guard->zeroed));
    return true;
}

HK_COLD void hk_block_take_back_overrun(void *p, unsigned cls, size_t bytes) {
    const size_t room = hk_classes[cls].size;
    hk_fault(HK_OVERFLOW, p, bytes, (ptrdiff_t)hk_tail_broken(p, bytes, room));
    hk_zero(p, hk_min(room, hk_guard->zeroed));
}

/* The shadow of a block that is out or early; NULL: a fault was reported. */
static _Atomic uint16_t *in_use(const void *p, unsigned cls) {
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    if (HK_LIKELY(shadow != NULL && is_in_use(hk_load_relaxed(shadow))))
        return shadow;
    hk_fault(HK_INVALID_POINTER, p, HK_NO_SIZE, HK_NOWHERE);
    return NULL;
}

size_t hk_block_bytes(const void *p, unsigned cls) {
    _Atomic uint16_t *shadow = in_use(p, cls);
    return shadow != NULL ? bytes_of(hk_load_relaxed(shadow), hk_classes[cls].size) : 0;
}

size_t hk_block_known(const void *p, unsigned cls) {
    const uint16_t is = hk_load_relaxed(hk_shadow_of(p, cls));
    return is_in_use(is) ? bytes_of(is, hk_classes[cls].size) : 0;
}

bool hk_block_resize(void *p, unsigned cls, size_t n) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = in_use(p, cls);
    if (shadow == NULL || !tail_is_whole(p, hk_load_relaxed(shadow), room))
        return false;
    const uint16_t was = hk_load_relaxed(shadow);
    const size_t before = bytes_of(was, room);
    hk_block_mark(p, n, room, shadow, hk_block_is_out(was) ? was & HK_BLOCK_BY : HK_BY_MALLOC);
    if (n > before) /* by memset, which may be another one that asks how long the block is */
        memset((char *)p + before, 0, n - before);
    return true;
}
