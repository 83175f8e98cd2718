/* What is looked for in a guarded block that is given back or out.
 *
 * The tail of a block, from its last byte in use on: up to 16 bytes, which nobody may write to. Their value
 * depends on where they are and on the process's secret, and none is 0. */
#ifndef HK_GUARD_TAIL_H
#define HK_GUARD_TAIL_H

#include <string.h>

#include "guard/guard.h"

typedef uint64_t hk_sixteen_t __attribute__((vector_size(16)));
enum { HK_TAIL_WINDOW = 16 };

HK_INLINE hk_sixteen_t hk_sixteen_at(const void *p) {
    hk_sixteen_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* The window through which a tail from n on is seen: there, but so that it ends with the block at the latest. (Of
 * a block with less room than a window it starts before the block, where there is memory then.) What lies before n
 * is masked, so that no branch depends on the tail's length, which is chance. */
typedef struct {
    ptrdiff_t at;
    hk_sixteen_t mask, value;
} hk_tail_t;

HK_INLINE hk_tail_t hk_tail_of(const char *p, size_t n, size_t room) {
    static const uint8_t edge[2 * HK_TAIL_WINDOW] = {[HK_TAIL_WINDOW... 2 * HK_TAIL_WINDOW - 1] =
                                                         UINT8_MAX};
    const ptrdiff_t last = (ptrdiff_t)room - HK_TAIL_WINDOW, from = (ptrdiff_t)n;
    const ptrdiff_t at = from < last ? from : last;
    hk_assert(n <= room && from - at <= HK_TAIL_WINDOW);
    const uint64_t word =
        ((hk_guard->secret ^ (uintptr_t)p) * 0x9FB21C651E98DF25u) | 0x0101010101010101u;
    return (hk_tail_t){at, hk_sixteen_at(edge + HK_TAIL_WINDOW - (from - at)), {word, word}};
}

/* Where it ends. What lies behind that nobody may write to either. */
HK_INLINE size_t hk_tail_end(size_t n, size_t room) { return hk_min(n + HK_TAIL_WINDOW, room); }

HK_INLINE void hk_tail_write(char *p, size_t n, size_t room) {
    const hk_tail_t tail = hk_tail_of(p, n, room);
    const hk_sixteen_t now = hk_sixteen_at(p + tail.at),
                       then = now ^ ((now ^ tail.value) & tail.mask);
    memcpy(p + tail.at, &then, sizeof then);
}

/* Of a block that holds nothing yet, and is no shorter than the window: what is before the tail reads as zero. */
HK_INLINE void hk_tail_begin(char *p, size_t n, size_t room) {
    const hk_tail_t tail = hk_tail_of(p, n, room);
    const hk_sixteen_t then = tail.value & tail.mask;
    memcpy(p + tail.at, &then, sizeof then);
}

HK_INLINE hk_sixteen_t hk_tail_wrong(const char *p, size_t n, size_t room) {
    const hk_tail_t tail = hk_tail_of(p, n, room);
    return (hk_sixteen_at(p + tail.at) ^ tail.value) & tail.mask;
}

HK_INLINE bool hk_tail_is_whole(const char *p, size_t n, size_t room) {
    const hk_sixteen_t wrong = hk_tail_wrong(p, n, room);
    return (wrong[0] | wrong[1]) == 0;
}

/* The first byte of the tail that was written to; SIZE_MAX: none. */
HK_INLINE size_t hk_tail_broken(const char *p, size_t n, size_t room) {
    uint8_t wrong[HK_TAIL_WINDOW];
    const hk_sixteen_t all = hk_tail_wrong(p, n, room);
    memcpy(wrong, &all, sizeof all);
    for (size_t i = 0; i < HK_TAIL_WINDOW; i++)
        if (wrong[i] != 0)
            return (size_t)hk_tail_of(p, n, room).at + i;
    return SIZE_MAX;
}

/* The first of n bytes that is not 0; SIZE_MAX: none. p and n are multiples of 8. */
HK_INLINE size_t hk_not_zero(const char *p, size_t n) {
    size_t at = 0;
    while (at < n && *(const uint64_t *)(const void *)(p + at) == 0)
        at += 8;
    while (at < n && p[at] == 0)
        at++;
    return at < n ? at : SIZE_MAX;
}

/* ---- clearing blocks, and looking whether they are clear ----
 *
 * p and n are multiples of 16. Up to a KiB by a way in for each length, whose steps are an instruction each: a loop
 * could not be foretold either, as lengths are chance. Not by memset, see hk_zero(). */

typedef uint64_t hk_clear_t __attribute__((vector_size(16), may_alias));
enum { HK_CLEAR_STEP = sizeof(hk_clear_t), HK_CLEAR_STEPS = 64 };

#define HK_CLEAR_4(step, i) step(i + 6) step(i + 4) step(i + 2) step(i)
#define HK_CLEAR_EACH(step) /* two at a time, all but the first two */                             \
    HK_CLEAR_4(step, 56)                                                                           \
    HK_CLEAR_4(step, 48)                                                                           \
    HK_CLEAR_4(step, 40)                                                                           \
    HK_CLEAR_4(step, 32)                                                                           \
    HK_CLEAR_4(step, 24) HK_CLEAR_4(step, 16) HK_CLEAR_4(step, 8) step(6) step(4) step(2)

HK_INLINE bool hk_is_clear(const char *p, size_t n) {
    const hk_clear_t *at = (const void *)p;
    hk_clear_t all = {0, 0}, other = {0, 0}; /* which need not wait for each other */
    if (HK_UNLIKELY(n - 1 >= HK_CLEAR_STEPS * HK_CLEAR_STEP))
        return hk_not_zero(p, n) == SIZE_MAX;
    switch ((n - 1) / HK_CLEAR_STEP) {
#define LOOK(i)                                                                                    \
    case (i) + 1:                                                                                  \
        other |= at[(i) + 1];                                                                      \
        __attribute__((fallthrough));                                                              \
    case i:                                                                                        \
        all |= at[i];                                                                              \
        __attribute__((fallthrough));
        HK_CLEAR_EACH(LOOK)
#undef LOOK
    case 1:
        other |= at[1];
        __attribute__((fallthrough));
    case 0:
        all |= at[0];
        break;
    default:
        __builtin_unreachable();
    }
    all |= other;
    return (all[0] | all[1]) == 0;
}

HK_INLINE void hk_clear(char *p, size_t n) {
    hk_clear_t *at = (void *)p;
    if (HK_UNLIKELY(n - 1 >= HK_CLEAR_STEPS * HK_CLEAR_STEP)) {
        hk_zero(p, n);
        return;
    }
    uint64_t none = 0;
    __asm__("" : "+r"(none)); /* or each step would make its own */
    const hk_clear_t zero = {none, none};
    switch ((n - 1) / HK_CLEAR_STEP) {
#define CLEAR(i)                                                                                   \
    case (i) + 1:                                                                                  \
        at[(i) + 1] = zero;                                                                        \
        __attribute__((fallthrough));                                                              \
    case i:                                                                                        \
        at[i] = zero;                                                                              \
        __attribute__((fallthrough));
        HK_CLEAR_EACH(CLEAR)
#undef CLEAR
    case 1:
        at[1] = zero;
        __attribute__((fallthrough));
    case 0:
        at[0] = zero;
        break;
    default:
        __builtin_unreachable();
    }
}

#endif
