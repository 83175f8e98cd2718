#include "backend/sizeclass.h"

#include "base/counters.h"
#include "base/lock.h"
#include "config/config.h"
#include "os/os.h"

/* A band for each doubling, from 8 bytes on up to 1024. */
#define BAND(size) ((size) <= 8 ? 0 : (size) > 1024 ? 8 : (uint8_t)(61 - __builtin_clzll((size)-1)))

/* What the compiler can see of the promises in sizeclass.h: sizes ascend in steps that the table
 * can name, and waste at most 15 bytes or a fifth; a slab's blocks fit into its slices, its bitmaps
 * and, with OS pages of 4 KiB, into one word of pages; its offsets are small enough for
 * hk_class_index(). */
#define PROMISES(cls, bytes, before, n)                                                            \
    _Static_assert((cls) >= 1 && (cls) < HK_CLASS_FIXED, "class 0 means none");                    \
    _Static_assert((before) < (bytes) && (bytes) <= HK_MID_MAX, "sizes ascend");                   \
    _Static_assert((bytes) % 8 == 0, "the table has an entry");                                    \
    _Static_assert((bytes) <= 8 || (bytes) % 16 == 0, "blocks suit max_align_t");                  \
    _Static_assert((bytes) - (before) <= 16 || ((bytes) - (before)-1) * 5 <= (bytes), "waste");    \
    _Static_assert((n) >= 1 && (n)*HK_SLICE / 4096 <= 64, "one word has a bit for each page");     \
    _Static_assert((n)*HK_SLICE / (bytes) >= 1, "a slab holds a block");                           \
    _Static_assert((n)*HK_SLICE * (bytes) < (1ull << 40), "the reciprocal is exact");              \
    _Static_assert(HK_MAGAZINE_REFILL(bytes) >= 1 && HK_MAGAZINE(bytes) <= 2000, "a magazine");
HK_CLASSES(PROMISES)
_Static_assert(HK_SLAB_MAX_BLOCKS == 64 * 64, "one summary word for all bitmap words");
_Static_assert(HK_SLOT_COUNT <= UINT16_MAX, "a magazine's place");
_Static_assert(HK_CLASS_COUNT <= UINT8_MAX, "the tables' entries");

#define ROW(bytes, n)                                                                              \
    {                                                                                              \
        .reciprocal = ((1ull << 40) + (bytes)-1) / (bytes), .size = (bytes),                       \
        .blocks = (uint16_t)HK_CLAMP((n)*65536 / (bytes), 1, HK_SLAB_MAX_BLOCKS),                  \
        .magazine = (uint16_t)HK_MAGAZINE(bytes), .narrow = (uint16_t)HK_MAGAZINE_NARROW(bytes),   \
        .refill = (uint16_t)HK_MAGAZINE_REFILL(bytes), .slices = (uint8_t)(n),                     \
        .band = BAND(bytes),                                                                       \
    }
#define ENTRY(cls, bytes, before, n) [cls] = ROW(bytes, n),
hk_class_t hk_classes[HK_CLASS_COUNT] = {HK_CLASSES(ENTRY)};

#define SIZE(cls, bytes, before, n) [((before) + 8) / 8 * ((before) != 0)...(bytes) / 8] = (cls),
_Atomic uint8_t hk_class_of_size[HK_MID_MAX / 8 + 1] = {HK_CLASSES(SIZE)};
_Atomic uint8_t hk_class_hidden[HK_MID_MAX / 8 + 1];

/* ---- learning ---- */

/* SAMPLES of a class's latest slabs are looked at. A size gets a class of its own if it was
 * requested for at least LEAST_SERVED of them, and saves at least 1 / LEAST_SHARE of the bytes of
 * the class's slabs, and LEAST_SAVED bytes. */
enum {
    SAMPLES = HK_HOSTILE ? 2 : 16,
    LEAST_SHARE = HK_HOSTILE ? 256 : 24,
    LEAST_SERVED = HK_HOSTILE ? 1 : 12,
    LEAST_SAVED = HK_HOSTILE ? 1 : 128 * 1024,
    SIXTEENS = 16
};

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_CLASSES);
static atomic_uint learned; /* written under the lock; how many spare classes have a size */

/* lock: classes. The request sizes of each class's latest slabs, in units of 16 bytes, as a ring;
 * `count`: how many were noted since the class was last split or forgotten. */
static struct {
    uint16_t size[SAMPLES];
    uint8_t count, next;
} samples[HK_CLASS_COUNT];

static bool settle_locked(hk_access_t access) {
    return hk_os_settle(hk_settled_classes, hk_settled_end, access);
}

void hk_classes_settle(void) {
    hk_lock(&lock);
    settle_locked(HK_READ);
    hk_unlock(&lock);
}

unsigned hk_class_end(void) { return HK_CLASS_FIXED + hk_load_acquire(&learned); }

static bool is_hidden; /* lock: classes */
static _Atomic uint8_t *table_locked(void) {
    return is_hidden ? hk_class_hidden : hk_class_of_size;
}

void hk_classes_hide(bool hidden) {
    hk_lock(&lock);
    const bool changes = hidden != is_hidden && settle_locked(HK_READ_WRITE);
    for (size_t i = 0; i <= HK_MID_MAX / 8 && changes; i++) {
        if (hidden)
            hk_store_release(&hk_class_hidden[i], hk_load_relaxed(&hk_class_of_size[i]));
        hk_store_release(&hk_class_of_size[i],
                         hidden ? (uint8_t)0 : hk_load_relaxed(&hk_class_hidden[i]));
    }
    if (changes) {
        is_hidden = hidden;
        settle_locked(HK_READ);
    }
    hk_unlock(&lock);
}

/* Leads the sizes above `before` up to `size` to class `cls`. */
static void lead_locked(size_t before, size_t size, unsigned cls) {
    hk_assert(hk_lock_is_mine(&lock) && before < size && hk_classes[cls].size >= size);
    for (size_t i = before / 8 + 1; i <= size / 8; i++)
        hk_store_release(&table_locked()[i], (uint8_t)cls);
}

/* The largest size, up to the class's own, that the table leads to another class. */
static size_t before_locked(unsigned cls) {
    size_t size = hk_classes[cls].size;
    while (size > 8 && hk_load_relaxed(&table_locked()[size / 8]) == cls)
        size -= 8;
    return size;
}

/* Gives a class its size, and slabs of a length that leaves little behind the last block. */
static void set_locked(hk_class_t *c, uint32_t size) {
    enum { MOST_SLICES = 4, LITTLE = 32 };
    unsigned best = 1;
    for (unsigned n = 1; n <= MOST_SLICES; n++) {
        if (n * HK_SLICE % size * best < best * HK_SLICE % size * n)
            best = n;
        if (best * HK_SLICE % size <= best * HK_SLICE / LITTLE)
            break;
    }
    *c = (hk_class_t)ROW(size, best);
}

/* The learned class of that size, or the next spare one; HK_CLASS_COUNT: none is left. */
static unsigned class_for(uint32_t size) {
    const unsigned end = hk_class_end();
    unsigned cls = HK_CLASS_FIXED;
    while (cls < end && hk_classes[cls].size != size)
        cls++;
    return cls;
}

/* The size requested for most of the slabs noted for class `cls`; 0: there is none. In small
 * classes, which serve two sizes each, it must be that of all: one of two soon has most by
 * chance. */
static uint32_t dominant_locked(unsigned cls) {
    const unsigned least = hk_classes[cls].size <= 2 * HK_LEARNED_FROM ? SAMPLES : LEAST_SERVED;
    for (unsigned i = 0; i <= SAMPLES - least; i++) {
        unsigned same = 0;
        for (unsigned k = 0; k < SAMPLES; k++)
            same += samples[cls].size[k] == samples[cls].size[i];
        if (same >= least)
            return samples[cls].size[i] * (uint32_t)SIXTEENS;
    }
    return 0;
}

/* Gives that size of class `cls`, and the smaller ones that `cls` serves, a class of their own. */
static HK_COLD void split_locked(unsigned cls, uint32_t size) {
    const size_t before = before_locked(cls);
    const unsigned own = class_for(size);
    if (size <= before || own == HK_CLASS_COUNT || !settle_locked(HK_READ_WRITE))
        return;
    if (own == hk_class_end()) {
        set_locked(&hk_classes[own], size);
        hk_store_release(&learned, own + 1 - HK_CLASS_FIXED);
    }
    lead_locked(before, size, own);
    samples[cls].count = samples[own].count = 0;
    hk_count(classes_learned, 1);
    settle_locked(HK_READ);
}

static void learn_locked(unsigned cls, size_t slab_bytes) {
    const uint32_t size = dominant_locked(cls), of = hk_classes[cls].size;
    const size_t saved = slab_bytes / of * (of - size);
    if (size != 0 && saved >= slab_bytes / LEAST_SHARE && saved >= LEAST_SAVED)
        split_locked(cls, size);
}

void hk_class_note(unsigned cls, size_t n, size_t slab_bytes) {
    if (n <= HK_LEARNED_FROM || hk_option(learn) == 0 || hk_class_of(n) != cls)
        return;
    if (!hk_lock_try(&lock))
        return; /* another thread notes a slab: sampling is enough */
    samples[cls].size[samples[cls].next] = (uint16_t)((n + SIXTEENS - 1) / SIXTEENS);
    samples[cls].next = (uint8_t)((samples[cls].next + 1) % SAMPLES);
    if (samples[cls].count < SAMPLES)
        samples[cls].count++;
    if (samples[cls].count == SAMPLES)
        learn_locked(cls, slab_bytes);
    hk_unlock(&lock);
}

/* Leads the class's sizes to the next larger class in the table. */
void hk_class_forget(unsigned cls) {
    hk_assert(cls >= HK_CLASS_FIXED && cls < hk_class_end());
    hk_lock(&lock);
    const size_t size = hk_classes[cls].size, before = before_locked(cls);
    if (before != size && settle_locked(HK_READ_WRITE)) {
        lead_locked(before, size, hk_load_relaxed(&table_locked()[size / 8 + 1]));
        settle_locked(HK_READ);
    }
    samples[cls].count = 0;
    hk_unlock(&lock);
}
