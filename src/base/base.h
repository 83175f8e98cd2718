/* Words that every box uses: attributes, alignment, assertions and atomics named by their order. */
#pragma once

#if !defined(__linux__) || !defined(__LP64__)
#error "hakmem is for Linux with a 64-bit address space"
#elif !defined(__x86_64__) && !defined(__aarch64__)
#error "hakmem knows the stack and the clock of x86-64 and 64-bit ARM only" /* os/stack.c, os/ticks.h */
#endif

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/build.h"

#define HK_VERSION "0.1.0"

#define HK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HK_INLINE static inline __attribute__((always_inline))
#define HK_COLD __attribute__((noinline, cold))
#define HK_NOINLINE __attribute__((noinline))
/* For variables that hot paths of other files read: else their address is looked up first. */
#define HK_HIDDEN __attribute__((visibility("hidden")))
#define HK_CACHE_LINE 64u

#define HK_KIB ((size_t)1024)
#define HK_MIB (1024 * HK_KIB)

/* Address space is taken in units; a superslab is one unit. The page map has an entry per slice. */
#define HK_SLICE_SHIFT 16
#define HK_SLICE ((size_t)1 << HK_SLICE_SHIFT)
#define HK_UNIT_SHIFT 21
#define HK_UNIT ((size_t)1 << HK_UNIT_SHIFT)

/* An assertion is for bugs of hakmem; bugs of the program go to hk_fatal() (base/report.h). */
#if HK_DEBUG
_Noreturn void hk_assert_failed(const char *what, const char *file, int line);
#define hk_assert(c) ((c) ? (void)0 : hk_assert_failed(#c, __FILE__, __LINE__))
#else
#define hk_assert(c) ((void)sizeof((c) ? 1 : 0))
#endif

/* Calls a function that checks by assertions, in debug builds only. */
#define hk_walk(call) hk_assert(((call), true))
#define HK_WALKER __attribute__((unused))

HK_INLINE bool hk_is_pow2(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

/* Rounds n up to a multiple of the power of two `align`; the caller has excluded overflow. */
HK_INLINE size_t hk_align_up(size_t n, size_t align) {
    hk_assert(hk_is_pow2(align));
    return (n + align - 1) & ~(align - 1);
}

HK_INLINE bool hk_is_aligned(uintptr_t n, size_t align) {
    hk_assert(hk_is_pow2(align));
    return (n & (align - 1)) == 0;
}

HK_INLINE size_t hk_slices_of(size_t bytes) { return (bytes + HK_SLICE - 1) / HK_SLICE; }

HK_INLINE size_t hk_min(size_t a, size_t b) { return a < b ? a : b; }
HK_INLINE size_t hk_max(size_t a, size_t b) { return a > b ? a : b; }
HK_INLINE size_t hk_minus(size_t a, size_t b) { return a > b ? a - b : 0; }

/* How many bits are 1: sums pairs, fours and eights, then the bytes. (Where processors without the
 * instruction are supported, the compiler's builtin is a call of a distant function.) */
HK_INLINE unsigned hk_ones(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

/* Bits first .. first+n-1 of a word, 0 < n <= 64. */
HK_INLINE uint64_t hk_bits(unsigned first, unsigned n) {
    hk_assert(n != 0 && first + n <= 64);
    return (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1) << first;
}

/* The mask of a bitmap's bits lo .. hi within its word w, which contains some of them. */
HK_INLINE uint64_t hk_bits_in(unsigned w, unsigned lo, unsigned hi) {
    const unsigned first = w == lo / 64 ? lo % 64 : 0, last = w == hi / 64 ? hi % 64 : 63;
    return hk_bits(first, last - first + 1);
}

/* Two words at once, where the compiler does not vectorize by itself. */
typedef uint64_t hk_two_t __attribute__((vector_size(16), aligned(8), may_alias));

/* Zeroes n bytes of memory that the program may not touch; p and n are multiples of 8. Not by
 * memset, which the program may have replaced by one that checks whose memory it is
 * (check/check.c). Writes 64 bytes at a time, the last 64 maybe twice: a loop over the rest would
 * be mispredicted as often. Longer ranges use the processor's string instruction where that is
 * faster. */
HK_INLINE void hk_zero(void *p, size_t n) {
    const hk_two_t zero = {0, 0};
    char *to = p, *end = to + n;
#if defined(__x86_64__)
    if (n >= 2 * HK_KIB) {
        n /= 8;
        __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(0) : "memory");
        return;
    }
#endif
    for (; n >= 64 && to < end - 64; to += 64) {
        hk_two_t *at = (hk_two_t *)(void *)to;
        at[0] = at[1] = at[2] = at[3] = zero;
        __asm__("" : "+r"(to)); /* else the compiler makes it a call of memset */
    }
    if (HK_LIKELY(n >= 64)) {
        hk_two_t *at = (hk_two_t *)(void *)(end - 64);
        at[0] = at[1] = at[2] = at[3] = zero;
        return;
    }
    for (; to < end; to += 8) {
        *(uint64_t *)(void *)to = 0;
        __asm__("" : "+r"(to));
    }
}

typedef uint64_t hk_sixteen_t __attribute__((vector_size(16)));

HK_INLINE hk_sixteen_t hk_sixteen_at(const void *p) {
    hk_sixteen_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Whether n bytes from p on, of any alignment, are all 0. */
HK_INLINE bool hk_is_zero(const char *p, size_t n) {
    enum { W = sizeof(hk_sixteen_t), MANY = 16 }; /* testing each costs more than reading on */
    const char *last = p + n - W;
    hk_sixteen_t all = {0, 0};
    if (n < W) {
        size_t i = 0;
        while (i < n && p[i] == 0)
            i++;
        return i == n;
    }
    for (; last - p >= (MANY - 1) * W; p += MANY * W) {
        for (int i = 0; i < MANY * W; i += 4 * W)
            all |= (hk_sixteen_at(p + i) | hk_sixteen_at(p + i + W)) |
                   (hk_sixteen_at(p + i + 2 * W) | hk_sixteen_at(p + i + 3 * W));
        if ((all[0] | all[1]) != 0)
            return false;
    }
    for (; p < last; p += W)
        all |= hk_sixteen_at(p);
    all |= hk_sixteen_at(last);
    return (all[0] | all[1]) == 0;
}

/* The first of n bytes that is not 0; SIZE_MAX: none. */
HK_INLINE size_t hk_not_zero(const char *p, size_t n) {
    size_t at = hk_is_zero(p, n) ? n : 0;
    while (at < n && p[at] == 0)
        at++;
    return at < n ? at : SIZE_MAX;
}

/* Atomics by order. The seq forms are the Dekker pair of the remote-free protocol
 * (backend/heap.c). */
#define hk_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define hk_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define hk_load_seq(p) atomic_load_explicit((p), memory_order_seq_cst)
#define hk_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define hk_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hk_store_seq(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)
#define hk_exchange_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define hk_exchange_seq(p, v) atomic_exchange_explicit((p), (v), memory_order_seq_cst)
#define hk_or_seq(p, v) atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)
#define hk_and_seq(p, v) atomic_fetch_and_explicit((p), (v), memory_order_seq_cst)
#define hk_add_seq(p, v) atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define hk_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define hk_sub_relaxed(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define hk_cas_acquire(p, expected, v)                                                             \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acquire,            \
                                            memory_order_relaxed)
#define hk_cas_seq(p, expected, v)                                                                 \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_seq_cst,            \
                                            memory_order_seq_cst)

/* Pushes an item onto an atomic list; `next` is the item's link. */
#define HK_PUSH(list, next, item)                                                                  \
    do                                                                                             \
        (next) = hk_load_seq(list);                                                                \
    while (!hk_cas_seq(list, &(next), item))
