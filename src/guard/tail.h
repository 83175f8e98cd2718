/* What is looked for in a guarded block that is given back or out.
 *
 * The tail of a block, from its last byte in use on: at most so many bytes, which nobody may write to.
 * Their value depends on where they are and on the process's secret, and none is 0. The block starts at a
 * multiple of 8, and its room is one. */
#ifndef HK_GUARD_TAIL_H
#define HK_GUARD_TAIL_H

#include <string.h>

#include "guard/guard.h"

enum { HK_TAIL_MOST = 32 };

/* The value of the 8 bytes at p, and of each 8 bytes of the tail from a multiple of 8 on. */
HK_INLINE uint64_t hk_tail_word(const char *p) {
    return ((hk_guard->secret ^ (uintptr_t)p) * 0x9FB21C651E98DF25u) | 0x0101010101010101u;
}

HK_INLINE uint64_t hk_tail_at(uint64_t word, size_t at) {
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a word's first byte is its lowest");
    const unsigned bits = 8 * (at & 7);
    return word >> bits | word << (-bits & 63);
}

/* Sixteen bytes; of a whole tail twice as many are looked at, through two windows of that width that may
 * be one. */
typedef uint64_t hk_sixteen_t __attribute__((vector_size(16)));
enum { HK_TAIL_WINDOW = 16 };
_Static_assert(HK_TAIL_MOST == 2 * HK_TAIL_WINDOW, "of two windows");

HK_INLINE hk_sixteen_t hk_sixteen_at(const void *p) {
    hk_sixteen_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Where the windows of a tail from n on start: there and behind that, but so that they end with the block at
 * the latest. (Of a block with less room than a window it starts before the block, where there is memory
 * then.) What lies before n is masked, so that no branch depends on the tail's length, which is chance. */
typedef struct {
    ptrdiff_t at;
    hk_sixteen_t mask, value;
} hk_tail_window_t;
HK_INLINE hk_tail_window_t hk_tail_window(uint64_t word, size_t from, size_t n, size_t room) {
    static const uint8_t edge[2 * HK_TAIL_WINDOW] = {[HK_TAIL_WINDOW... 2 * HK_TAIL_WINDOW - 1] =
                                                         UINT8_MAX};
    const ptrdiff_t last = (ptrdiff_t)room - HK_TAIL_WINDOW, end = (ptrdiff_t)n;
    const ptrdiff_t at = (ptrdiff_t)from < last ? (ptrdiff_t)from : last;
    const ptrdiff_t before = end > at ? end - at : 0;
    hk_assert(n <= room && before <= HK_TAIL_WINDOW);
    const uint64_t value = hk_tail_at(word, (size_t)at);
    return (hk_tail_window_t){at, hk_sixteen_at(edge + HK_TAIL_WINDOW - before), {value, value}};
}

HK_INLINE void hk_tail_write_window(char *p, hk_tail_window_t window) {
    const hk_sixteen_t now = hk_sixteen_at(p + window.at);
    const hk_sixteen_t then = (now & ~window.mask) | (window.value & window.mask);
    memcpy(p + window.at, &then, sizeof then);
}

HK_INLINE void hk_tail_write(char *p, size_t n, size_t room) {
    const uint64_t word = hk_tail_word(p);
    hk_tail_write_window(p, hk_tail_window(word, n, n, room));
    hk_tail_write_window(p, hk_tail_window(word, n + HK_TAIL_WINDOW, n, room));
}

HK_INLINE bool hk_tail_is_whole(const char *p, size_t n, size_t room) {
    const uint64_t word = hk_tail_word(p);
    const hk_tail_window_t one = hk_tail_window(word, n, n, room),
                           other = hk_tail_window(word, n + HK_TAIL_WINDOW, n, room);
    const hk_sixteen_t wrong = ((hk_sixteen_at(p + one.at) ^ one.value) & one.mask) |
                               ((hk_sixteen_at(p + other.at) ^ other.value) & other.mask);
    return (wrong[0] | wrong[1]) == 0;
}

/* The first byte of the tail that was written to; SIZE_MAX: none. */
HK_INLINE size_t hk_tail_broken(const char *p, size_t n, size_t room) {
    if (HK_LIKELY(hk_tail_is_whole(p, n, room)))
        return SIZE_MAX;
    while (p[n] == (char)hk_tail_at(hk_tail_word(p), n))
        n++;
    return n;
}

/* Whether n bytes are 0; p and n are multiples of 8. As hk_zero(). */
HK_INLINE bool hk_is_zero(const char *p, size_t n) {
    typedef uint64_t two_t __attribute__((vector_size(16), aligned(8), may_alias));
    two_t all = {0, 0};
    uint64_t rest = 0;
    const char *end = p + n;
    for (; n >= 64 && p < end - 64; p += 64) {
        const two_t *at = (const two_t *)(const void *)p;
        all |= at[0] | at[1] | at[2] | at[3];
    }
    if (HK_LIKELY(n >= 64)) {
        const two_t *at = (const two_t *)(const void *)(end - 64);
        all |= at[0] | at[1] | at[2] | at[3];
        return (all[0] | all[1]) == 0;
    }
    for (; p < end; p += 8)
        rest |= *(const uint64_t *)(const void *)p;
    return rest == 0;
}

/* The first of n bytes that is not 0; SIZE_MAX: none. */
HK_INLINE size_t hk_not_zero(const char *p, size_t n) {
    size_t at = 0;
    if (HK_LIKELY(hk_is_zero(p, n)))
        return SIZE_MAX;
    while (p[at] == 0)
        at++;
    return at;
}

#endif
