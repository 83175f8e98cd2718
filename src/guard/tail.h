/* Tails of guarded blocks, and checking and clearing of their memory.
 *
 * A tail begins at the first byte behind those that were asked for: up to 16 bytes that nobody may
 * write to. Their value depends on the address and the process's secrets. None is 0 but the second,
 * which ends a text that the program left unterminated: reading it goes no further. */
#pragma once

#include <string.h>

#include "base/random.h"
#include "guard/guard.h"
#include "os/os.h"

enum { HK_TAIL_WINDOW = 16 };

/* The 16-byte window through which the tail from n on is accessed: it starts at n, or earlier so
 * that it ends with the block. (If the block is shorter than a window, the window starts before the
 * block, where there is memory then.) Bytes before n are masked, so that no branch depends on the
 * tail's length, which is unpredictable. */
typedef struct {
    ptrdiff_t at;
    hk_sixteen_t mask, value; /* `value` is 0 where the mask is */
} hk_tail_t;

HK_INLINE hk_tail_t hk_tail_of(const char *p, size_t n, size_t room) {
    enum { W = HK_TAIL_WINDOW, VALUE = 2 * W };
    /* the mask and, from VALUE on, that of the value, each behind a window without a tail */
    static const uint8_t edge[VALUE + 2 * W] __attribute__((aligned(HK_CACHE_LINE))) = {
        [W... 2 * W - 1] = UINT8_MAX,
        [VALUE + W] = UINT8_MAX,
        [VALUE + W + 2 ... VALUE + 2 * W - 1] = UINT8_MAX};
    const ptrdiff_t last = (ptrdiff_t)room - HK_TAIL_WINDOW, from = (ptrdiff_t)n;
    const ptrdiff_t at = from < last ? from : last;
    hk_assert(n <= room && from - at <= HK_TAIL_WINDOW);
    /* A product's low bytes do not depend on its factors' high bits: swapping the bytes makes them
     * the high ones of the second product, whose halves are folded. */
    const uint64_t product = (hk_guard->secret ^ (uintptr_t)p) * hk_guard->mixes;
    const uint64_t word =
        hk_folded(__builtin_bswap64(product), hk_guard->stirs) | 0x0101010101010101u;
    const uint8_t *shown = edge + W + (at - from);
    const hk_sixteen_t value = {word, word};
    return (hk_tail_t){at, hk_sixteen_at(shown), value & hk_sixteen_at(shown + VALUE)};
}

/* The tail's end. Nobody may write to the block's rest behind it either. */
HK_INLINE size_t hk_tail_end(size_t n, size_t room) { return hk_min(n + HK_TAIL_WINDOW, room); }

HK_INLINE void hk_tail_write(char *p, size_t n, size_t room) {
    const hk_tail_t tail = hk_tail_of(p, n, room);
    const hk_sixteen_t then = (hk_sixteen_at(p + tail.at) & ~tail.mask) | tail.value;
    memcpy(p + tail.at, &then, sizeof then);
}

/* hk_tail_write() for a block no shorter than the window that reads as zero. */
HK_INLINE void hk_tail_begin(char *p, size_t n, size_t room) {
    const hk_tail_t tail = hk_tail_of(p, n, room);
    memcpy(p + tail.at, &tail.value, sizeof tail.value);
}

/* Clears the tail and what lies before it in its window: a free block, no shorter than the
 * window. */
HK_INLINE void hk_tail_clear(char *p, size_t n, size_t room) {
    const hk_sixteen_t zero = {0, 0};
    memcpy(p + hk_tail_of(p, n, room).at, &zero, sizeof zero);
}

HK_INLINE hk_sixteen_t hk_tail_wrong(const char *p, size_t n, size_t room) {
    const hk_tail_t tail = hk_tail_of(p, n, room);
    return (hk_sixteen_at(p + tail.at) & tail.mask) ^ tail.value;
}

HK_INLINE bool hk_tail_is_whole(const char *p, size_t n, size_t room) {
    const hk_sixteen_t wrong = hk_tail_wrong(p, n, room);
    return (wrong[0] | wrong[1]) == 0;
}

/* The first byte of the tail that was written to; SIZE_MAX: none. A block without a tail is not
 * read: the program may have made its last page inaccessible. */
HK_INLINE size_t hk_tail_broken(const char *p, size_t n, size_t room) {
    uint8_t wrong[HK_TAIL_WINDOW];
    if (n == room)
        return SIZE_MAX;
    const hk_sixteen_t all = hk_tail_wrong(p, n, room);
    memcpy(wrong, &all, sizeof all);
    for (size_t i = 0; i < HK_TAIL_WINDOW; i++)
        if (wrong[i] != 0)
            return (size_t)hk_tail_of(p, n, room).at + i;
    return SIZE_MAX;
}

/* hk_zero(), but pages that read as zero are not written to and stay without memory: a program may
 * use little of a large block. Returns the bytes of the parts that were cleared. */
HK_INLINE size_t hk_zero_written(char *p, size_t n) {
    const size_t page = hk_os_page_size();
    size_t written = 0;
    for (size_t at = 0, part; at < n; at += part) {
        part = hk_min(page - ((uintptr_t)p + at) % page, n - at);
        if (!hk_is_zero(p + at, part)) {
            hk_zero(p + at, part);
            written += part;
        }
    }
    return written;
}

/* memcpy() between blocks, but a page that reads as zero in both is not written to and stays
 * without memory. */
HK_INLINE void hk_copy_written(char *to, const char *from, size_t n) {
    const size_t page = hk_os_page_size(), whole = n - n % page;
    for (size_t at = 0; at < whole; at += page)
        if (!hk_is_zero(from + at, page) || !hk_is_zero(to + at, page))
            memcpy(to + at, from + at, page);
    memcpy(to + whole, from + whole, n - whole);
}

/* Clears the bytes between two tails' ends. */
HK_INLINE void hk_clear_between(char *p, size_t from, size_t to) {
    for (; from < to && from % 8 != 0; from++)
        *(volatile char *)(p + from) = 0; /* not by memset, see hk_zero() */
    if (from < to)
        hk_zero(p + from, hk_align_up(to - from, 8));
}

/* Whether the block's first `zeroed` bytes read as zero behind the tail. */
HK_INLINE bool hk_is_zero_behind(const char *p, size_t n, size_t room, size_t zeroed) {
    const size_t end = hk_tail_end(n, room);
    return hk_is_zero(p + end, hk_minus(hk_min(room, zeroed), end));
}

/* Finds what was written to around a block of n bytes with `room` bytes: `before` bytes before it
 * and its first `zeroed` bytes behind the tail must read as zero. *at is HK_NOWHERE if nothing
 * was. */
HK_INLINE hk_fatal_t hk_edge_broken(const char *p, size_t n, size_t room, size_t before,
                                    size_t zeroed, ptrdiff_t *at) {
    const size_t below = hk_not_zero(p - before, before), end = hk_tail_end(n, room);
    const size_t broken = hk_tail_broken(p, n, room);
    const size_t behind = hk_not_zero(p + end, hk_minus(hk_min(room, zeroed), end));
    *at = below != SIZE_MAX    ? (ptrdiff_t)(below - before)
          : broken != SIZE_MAX ? (ptrdiff_t)broken
          : behind != SIZE_MAX ? (ptrdiff_t)(end + behind)
                               : HK_NOWHERE;
    return below != SIZE_MAX ? HK_UNDERFLOW : HK_OVERFLOW;
}

/* The same; reports a fault if something was written to, and returns false. */
HK_INLINE bool hk_edges_are_whole(const char *p, size_t n, size_t room, size_t before,
                                  size_t zeroed) {
    ptrdiff_t at;
    if (HK_LIKELY(before == 0 && (n == room || hk_tail_is_whole(p, n, room)) &&
                  hk_is_zero_behind(p, n, room, zeroed)))
        return true;
    const hk_fatal_t kind = hk_edge_broken(p, n, room, before, zeroed, &at);
    if (HK_UNLIKELY(at != HK_NOWHERE))
        hk_guard_fault(kind, p, n, at);
    return at == HK_NOWHERE;
}

/* ---- clearing blocks, and checking that they are clear ----
 *
 * p and n are multiples of 16. Up to 1 KiB goes in 16-byte steps from the front and from the end,
 * which may overlap. So branches depend only on the power of two below the length: lengths are
 * unpredictable, and a wrong prediction costs more than a few extra steps. Not by memset, see
 * hk_zero(). */

typedef uint64_t hk_clear_t __attribute__((vector_size(16), may_alias));
enum { HK_CLEAR_STEP = sizeof(hk_clear_t), HK_CLEAR_STEPS = 64 };

/* How many steps a block of n bytes takes; more than HK_CLEAR_STEPS: it is too long for this. */
HK_INLINE size_t hk_clear_steps(size_t n) {
    return hk_min(hk_min(n, hk_guard->zeroed) / HK_CLEAR_STEP, HK_CLEAR_STEPS + 1);
}

#define HK_CLEAR_EACH(n) _Pragma("GCC unroll 16") for (unsigned i = 0; i < (n); i++)

/* `steps` is hk_clear_steps(); false also if that is too many. */
HK_INLINE bool hk_is_clear(const char *p, size_t steps) {
    const hk_clear_t *at = (const void *)p, *end = at + steps;
    hk_clear_t all = {0, 0}, other = {0, 0}; /* two chains without a dependency */
    if (HK_LIKELY(steps - 1 < 4)) {
        all = at[0] | end[-1];
        other = at[steps / 2] | at[(steps - 1) / 2];
    } else if (HK_LIKELY(steps - 1 < 8)) {
        HK_CLEAR_EACH(4) { all |= at[i], other |= end[-4 + (int)i]; }
    } else if (HK_LIKELY(steps - 1 < 16)) {
        HK_CLEAR_EACH(8) { all |= at[i], other |= end[-8 + (int)i]; }
    } else if (HK_LIKELY(steps - 1 < HK_CLEAR_STEPS)) {
        for (; end - at > 16; at += 16)
            HK_CLEAR_EACH(8) { all |= at[2 * i], other |= at[2 * i + 1]; }
        HK_CLEAR_EACH(8) { all |= end[-16 + 2 * (int)i], other |= end[-15 + 2 * (int)i]; }
    } else if (steps != 0) {
        return false;
    }
    all |= other;
    return (all[0] | all[1]) == 0;
}

HK_INLINE void hk_clear(char *p, size_t steps) {
    hk_clear_t *at = (void *)p, *end = at + steps, zero = {0, 0};
#if defined(__x86_64__)
    __asm__("" : "+x"(zero)); /* else compilers make a zero for each step, or a memset of all */
#else
    __asm__("" : "+m"(zero));
#endif
    if (HK_LIKELY(steps - 1 < 4)) {
        at[0] = end[-1] = at[steps / 2] = at[(steps - 1) / 2] = zero;
    } else if (HK_LIKELY(steps - 1 < 8)) {
        HK_CLEAR_EACH(4) { at[i] = end[-4 + (int)i] = zero; }
    } else if (HK_LIKELY(steps - 1 < 16)) {
        HK_CLEAR_EACH(8) { at[i] = end[-8 + (int)i] = zero; }
    } else if (HK_LIKELY(steps != 0)) {
        for (; end - at > 16; at += 16)
            HK_CLEAR_EACH(16) { at[i] = zero; }
        HK_CLEAR_EACH(16) { end[-16 + (int)i] = zero; }
    }
}
