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

HK_INLINE uint64_t hk_tail_load(const char *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* Of a tail of 16 bytes and more: where its second half starts. Below that it is in two words, the second
 * of which ends the block; of each, the bytes that belong to it. */
HK_INLINE size_t hk_tail_half(size_t n, size_t room) { return hk_min(n + 16, room - 16); }
HK_INLINE uint64_t hk_tail_mask(size_t tail) {
    return tail >= 8 ? UINT64_MAX : ~(UINT64_MAX >> 8 * tail);
}

HK_INLINE void hk_tail_write_word(char *p, uint64_t word, uint64_t mask) {
    word = (hk_tail_load(p) & ~mask) | (word & mask);
    memcpy(p, &word, 8);
}

HK_INLINE void hk_tail_write(char *p, size_t n, size_t room) {
    const uint64_t word = hk_tail_word(p);
    const size_t tail = room - n;
    if (HK_LIKELY(tail >= 16)) {
        const size_t half = hk_tail_half(n, room);
        const uint64_t first = hk_tail_at(word, n), second = hk_tail_at(word, half);
        memcpy(p + n, &first, 8);
        memcpy(p + n + 8, &first, 8);
        memcpy(p + half, &second, 8);
        memcpy(p + half + 8, &second, 8);
    } else if (tail != 0) {
        hk_tail_write_word(p + room - 8, word, hk_tail_mask(tail));
        if (tail > 8)
            hk_tail_write_word(p + room - 16, word, hk_tail_mask(tail - 8));
    }
}

HK_INLINE bool hk_tail_is_whole(const char *p, size_t n, size_t room) {
    const uint64_t word = hk_tail_word(p);
    const size_t tail = room - n;
    if (HK_LIKELY(tail >= 16)) {
        const size_t half = hk_tail_half(n, room);
        const uint64_t first = hk_tail_at(word, n), second = hk_tail_at(word, half);
        return ((hk_tail_load(p + n) ^ first) | (hk_tail_load(p + n + 8) ^ first) |
                (hk_tail_load(p + half) ^ second) | (hk_tail_load(p + half + 8) ^ second)) == 0;
    }
    if (tail == 0)
        return true;
    if (((hk_tail_load(p + room - 8) ^ word) & hk_tail_mask(tail)) != 0)
        return false;
    return tail <= 8 || ((hk_tail_load(p + room - 16) ^ word) & hk_tail_mask(tail - 8)) == 0;
}

/* The first byte of the tail that was written to; SIZE_MAX: none. */
HK_INLINE size_t hk_tail_broken(const char *p, size_t n, size_t room) {
    if (HK_LIKELY(hk_tail_is_whole(p, n, room)))
        return SIZE_MAX;
    while (p[n] == (char)hk_tail_at(hk_tail_word(p), n))
        n++;
    return n;
}

/* Whether n bytes are 0; p and n are multiples of 8. */
HK_INLINE bool hk_is_zero(const char *p, size_t n) {
    typedef uint64_t two_t __attribute__((vector_size(16), aligned(8), may_alias));
    two_t all = {0, 0};
    size_t at = 0;
    for (; at + 64 <= n; at += 64) {
        const two_t *words = (const two_t *)(const void *)(p + at);
        all |= words[0] | words[1] | words[2] | words[3];
    }
    uint64_t rest = all[0] | all[1];
    for (; at < n; at += 8)
        rest |= *(const uint64_t *)(const void *)(p + at);
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
