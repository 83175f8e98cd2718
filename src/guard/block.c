#include "guard/block.h"

#include <string.h>

#include "backend/superslab.h"
#include "base/report.h"
#include "guard/tail.h"
#include "policy/purger.h"

/* What a shadow says. Of a block that is out, in the lowest two bits, by whom it was given out; above
 * them how much longer than asked for it is, or MOST_SLACK: that much at least, and it has no tail. */
enum { FREE = 0, BY = 3, SLACK_SHIFT = 2, MOST_SLACK = UINT16_MAX >> SLACK_SHIFT };
_Static_assert((HK_BLOCK_EARLY & BY) == 0, "is told from a block that is out");

static uint16_t shadow_of(size_t slack, hk_by_t by) {
    return (uint16_t)(hk_min(slack, MOST_SLACK) << SLACK_SHIFT | by);
}

static bool is_out(uint16_t shadow) { return (shadow & BY) != 0; }

static bool is_exact(uint16_t shadow) {
    return is_out(shadow) && shadow >> SLACK_SHIFT < MOST_SLACK;
}

/* The bytes asked for, as far as they are known. */
static size_t bytes_of(uint16_t shadow, size_t room) {
    return is_exact(shadow) ? room - (shadow >> SLACK_SHIFT) : room;
}

static size_t cleared(size_t room) { return hk_min(room, hk_guard->zeroed); }

/* Who freed it early did not clear it. */
static HK_COLD void is_not_clear(char *p, uint16_t shadow, size_t room, size_t at) {
    if (shadow != HK_BLOCK_EARLY)
        hk_fault(HK_WRITE_AFTER_FREE, p, room, (ptrdiff_t)at);
    hk_zero(p, room);
}

void *hk_block_hand_out(void *p, unsigned cls, size_t n, hk_by_t by) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    hk_assert(shadow != NULL && n <= room && !is_out(hk_load_relaxed(shadow)));
    const size_t at = hk_not_zero(p, cleared(room));
    if (HK_UNLIKELY(at != SIZE_MAX))
        is_not_clear(p, hk_load_relaxed(shadow), room, at);
    hk_store_relaxed(shadow, shadow_of(room - n, by));
    if (hk_guard->tail != 0)
        hk_tail_write(p, n, room);
    return p;
}

/* False: the tail is not whole. */
static bool tail_is_whole(const char *p, uint16_t shadow, size_t room) {
    if (hk_guard->tail == 0 || !is_exact(shadow))
        return true;
    const size_t n = bytes_of(shadow, room);
    const size_t at = hk_tail_broken(p, n, room);
    if (HK_LIKELY(at == SIZE_MAX))
        return true;
    hk_fault(HK_OVERFLOW, p, n, (ptrdiff_t)at);
    return false;
}

/* False: another thread has freed the block meanwhile. Who allocates alone needs no exclusive access to
 * say so, which takes longer than all else; that it is not alone any more it may miss once. */
static bool set_free(_Atomic uint16_t *shadow, uint16_t was) {
    if (HK_UNLIKELY(!hk_load_relaxed(&hk_purger_on_foot)))
        return hk_cas_acquire(shadow, &was, (uint16_t)FREE);
    hk_store_relaxed(shadow, (uint16_t)FREE);
    return true;
}

bool hk_block_take_back(void *p, unsigned cls, hk_by_t by, size_t n) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    if (HK_UNLIKELY(shadow == NULL)) {
        hk_fault(HK_INVALID_FREE, p, HK_NO_SIZE, HK_NOWHERE);
        return false;
    }
    uint16_t was = hk_load_relaxed(shadow);
    if (HK_UNLIKELY(!is_out(was) && was != HK_BLOCK_EARLY) || !set_free(shadow, was)) {
        hk_fault(HK_DOUBLE_FREE, p, HK_NO_SIZE, HK_NOWHERE);
        return false;
    }
    tail_is_whole(p, was, room);
    if (HK_LIKELY(is_out(was)))
        hk_guard_check_claims(p, bytes_of(was, room), (hk_by_t)(was & BY), by,
                              is_exact(was) ? n : HK_ANY_SIZE);
    hk_zero(p, cleared(room));
    return true;
}

/* The shadow of a block that is out or early; NULL: a fault was reported. */
static _Atomic uint16_t *in_use(const void *p, unsigned cls) {
    _Atomic uint16_t *shadow = hk_shadow_of(p, cls);
    const uint16_t is = shadow != NULL ? hk_load_relaxed(shadow) : FREE;
    if (HK_LIKELY(is_out(is) || is == HK_BLOCK_EARLY))
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
    return is_out(is) || is == HK_BLOCK_EARLY ? bytes_of(is, hk_classes[cls].size) : 0;
}

bool hk_block_resize(void *p, unsigned cls, size_t n) {
    const size_t room = hk_classes[cls].size;
    _Atomic uint16_t *shadow = in_use(p, cls);
    if (shadow == NULL || !tail_is_whole(p, hk_load_relaxed(shadow), room))
        return false;
    const uint16_t was = hk_load_relaxed(shadow);
    const size_t before = bytes_of(was, room);
    if (n > before)
        memset((char *)p + before, 0, n - before);
    hk_store_relaxed(shadow, shadow_of(room - n, is_out(was) ? was & BY : HK_BY_MALLOC));
    if (hk_guard->tail != 0)
        hk_tail_write(p, n, room);
    return true;
}
