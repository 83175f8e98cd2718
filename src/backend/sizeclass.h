/* Size classes: which block size serves a request, and how a slab of each class is cut.
 *
 * The fixed classes: 8, then 16 to 128 by 16, then four per doubling up to 32 KiB: at most 15 bytes
 * are wasted up to 128 B, at most 20 % above. Class 0 means "none". A band (C0 ... C7) is the unit
 * in which users tune and read reports; it covers one or more classes.
 *
 * A few more are *learned* while the program runs: in most programs one or two sizes hold most of
 * the bytes, and few of them are a fixed class's. Each new slab is noted with the size of the
 * request that needed it. If the latest ones of a class show that a smaller size would save enough,
 * a spare class gets that size, for good, and the size table leads to it. Existing blocks keep
 * their class. So an entry may change at any moment, and a thread that read the old one is served
 * as well. */
#pragma once

#include "base/base.h"

/* X(class, block bytes, bytes of the class before, slices of a slab); the four of a doubling */
#define HK_DOUBLED(X, cls, from, slices)                                                           \
    X(cls, (from) / 4 * 5, from, slices)                                                           \
    X((cls) + 1, (from) / 4 * 6, (from) / 4 * 5, slices)                                           \
    X((cls) + 2, (from) / 4 * 7, (from) / 4 * 6, slices)                                           \
    X((cls) + 3, (from)*2, (from) / 4 * 7, slices)
#define HK_CLASSES(X)                                                                              \
    X(1, 8, 0, 1)                                                                                  \
    X(2, 16, 8, 1)                                                                                 \
    X(3, 32, 16, 1)                                                                                \
    X(4, 48, 32, 1)                                                                                \
    X(5, 64, 48, 1)                                                                                \
    X(6, 80, 64, 1)                                                                                \
    X(7, 96, 80, 1)                                                                                \
    X(8, 112, 96, 1)                                                                               \
    X(9, 128, 112, 1)                                                                              \
    HK_DOUBLED(X, 10, 128, 1)                                                                      \
    HK_DOUBLED(X, 14, 256, 1)                                                                      \
    HK_DOUBLED(X, 18, 512, 1)                                                                      \
    HK_DOUBLED(X, 22, 1024, 1)                                                                     \
    HK_DOUBLED(X, 26, 2048, 1)                                                                     \
    HK_DOUBLED(X, 30, 4096, 1)                                                                     \
    HK_DOUBLED(X, 34, 8192, 2)                                                                     \
    HK_DOUBLED(X, 38, 16384, 4)

/* The most blocks of a class in a thread's magazine: 2000, at most 256 KiB, but never fewer than 8;
 * while the thread only takes such blocks, or only frees them, 128, at most 64 KiB, but never fewer
 * than 4. And the most that one refill brings. All magazines of a thread together are bounded by
 * its budget (front/thread.h). */
#define HK_CLAMP(x, lo, hi) ((x) < (lo) ? (lo) : (x) > (hi) ? (hi) : (x))
#define HK_MAGAZINE(size) (HK_HOSTILE ? 2 : HK_CLAMP(262144 / (size), 8, 2000))
#define HK_MAGAZINE_NARROW(size) (HK_HOSTILE ? 1 : HK_CLAMP(65536 / (size), 4, 128))
#define HK_MAGAZINE_REFILL(size)                                                                   \
    (HK_HOSTILE ? 2 : HK_CLAMP(((size) <= 1024 ? 65536 : 131072) / (size), 8, 256))

enum {
    HK_CLASS_FIXED = 42, /* class 0 included; the numbers from here on are of learned classes */
    HK_CLASS_COUNT = HK_CLASS_FIXED + 4, /* each is a few dozen bytes of every thread */
    HK_MID_MAX = 32768,
    HK_LEARNED_FROM = 128,     /* bytes: up to here 15 at most are wasted, and nothing is learned */
    HK_SLAB_MAX_BLOCKS = 4096, /* 64 bitmap words: one summary word covers them */
};

/* The slots that all of a thread's magazines take at their largest, slot 0 of each included, and
 * one largest magazine more, since one is there twice while it moves. */
#define HK_SLOTS(cls, size, before, slices) +1 + HK_MAGAZINE(size)
enum {
    HK_SLOT_COUNT = HK_CLASSES(HK_SLOTS) +
                    (HK_CLASS_COUNT - HK_CLASS_FIXED) * (1 + HK_MAGAZINE(HK_LEARNED_FROM)) + 1 +
                    HK_MAGAZINE(8)
};

/* The properties of a class; a spare class has none until it gets a size, which it then keeps.
 * Invariant: blocks * size <= slices * HK_SLICE, blocks <= HK_SLAB_MAX_BLOCKS. */
typedef struct {
    uint64_t reciprocal; /* ceil(2^40 / size), see hk_class_index() */
    uint32_t size;       /* bytes of a block */
    uint16_t blocks;     /* per slab */
    uint16_t magazine;   /* the most blocks a thread's magazine of this class may hold */
    uint16_t narrow;     /* the same while the thread only takes blocks, or only frees them */
    /* the most blocks that a refill brings, and that a magazine is sized for at once */
    uint16_t refill;
    uint8_t slices; /* per slab */
    uint8_t band;   /* C0 ... C7; 8 above 1024 bytes */
} hk_class_t;

extern hk_class_t hk_classes[HK_CLASS_COUNT];

/* The table: entry i leads to the class for sizes above 8*(i-1) up to 8*i; entry 0, for malloc(0),
 * to class 1 as well. */
extern _Atomic uint8_t hk_class_of_size[HK_MID_MAX / 8 + 1] __asm__("hak_inline_class_of_size_2");

/* While the table is hidden it leads to class 0, so that each allocation misses, and
 * hk_class_hidden has the entries. Any thread that has entered. Idempotent. */
void hk_classes_hide(bool hidden);
extern _Atomic uint8_t hk_class_hidden[HK_MID_MAX / 8 + 1];
HK_INLINE unsigned hk_class_of_hidden(size_t n) {
    return hk_load_acquire(&hk_class_hidden[(n + 7) >> 3]);
}

/* The class for n bytes, n <= HK_MID_MAX; its row can be read (acquire: a learned one has been
 * written before). */
HK_INLINE unsigned hk_class_of(size_t n) {
    hk_assert(n <= HK_MID_MAX);
    const unsigned cls = hk_load_acquire(&hk_class_of_size[(n + 7) >> 3]);
    return HK_LIKELY(cls != 0) ? cls : hk_class_of_hidden(n);
}

/* The fixed class for n bytes, 0 < n <= HK_MID_MAX: by sixteens, then by quarters of a doubling. */
HK_INLINE unsigned hk_fixed_class_of(size_t n) {
    hk_assert(n != 0 && n <= HK_MID_MAX);
    if (n <= 128)
        return n <= 8 ? 1 : (unsigned)(n + 15) / 16 + 1;
    const unsigned doubling = 63u - (unsigned)__builtin_clzll(n - 1);
    return 10 + (doubling - 7) * 4 + ((unsigned)((n - 1) >> (doubling - 2)) & 3);
}

/* ---- learning ---- */

/* Notes that a new slab of class `cls` was needed for a request of n bytes, and how many bytes the
 * class's slabs have. May make a new class. Any thread. */
void hk_class_note(unsigned cls, size_t n, size_t slab_bytes);

/* The last slab of a learned class is gone: its sizes lead to the next larger class again, until it
 * is learned once more. Any thread. */
void hk_class_forget(unsigned cls);

/* Makes the tables read-only, except while this box changes them. Called after hk_config_settle(),
 * which does the same for the options. */
void hk_classes_settle(void);

/* One more than the highest class that has a size. Rows below it can be read. */
unsigned hk_class_end(void);

/* The size to ask for so that n bytes come aligned to `align`, a power of two; SIZE_MAX: overflow.
 * For alignments above 16 it is, up to HK_MID_MAX, the size of a fixed class, which it always leads
 * to, and a multiple of the alignment: the fixed classes of a doubling are multiples of a quarter
 * of its start, so the class of a multiple of the alignment is one too. Slabs start at a slice, so
 * all of the class's blocks are aligned. */
HK_INLINE size_t hk_size_for_alignment(size_t n, size_t align) {
    size_t up = hk_align_up(hk_max(n, 1), align);
    if (align > 16 && up - 1 < HK_MID_MAX)
        return hk_classes[hk_fixed_class_of(up)].size;
    return up != 0 ? up : SIZE_MAX;
}

/* offset / size without a division. With r = 2^40/size + e, e < 1, the error is offset * e / 2^40,
 * which stays below 1/size as long as offset * size < 2^40: offsets are < 2^18 and
 * sizes <= 2^15. */
HK_INLINE uint32_t hk_class_index(const hk_class_t *c, size_t offset) {
    hk_assert(offset < c->slices * HK_SLICE);
    return (uint32_t)((offset * c->reciprocal) >> 40);
}
