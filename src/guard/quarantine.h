/* A thread's quarantine: freed blocks wait in it, of each class a few. Which one a newcomer drives
 * out is a matter of chance, so that nobody can tell when a block is given out again. */
#ifndef HK_GUARD_QUARANTINE_H
#define HK_GUARD_QUARANTINE_H

#include "backend/sizeclass.h"
#include "base/random.h"
#include "guard/guard.h"

enum { HK_QUARANTINE_MOST = 64 }; /* blocks of a class */

/* All of it is the owning thread's. */
typedef struct {
    uint64_t stream;
    uint8_t held[HK_CLASS_COUNT];
    uint8_t full[HK_CLASS_COUNT]; /* how many may be held, as soon as they are; 0 before that */
    void *blocks[HK_CLASS_COUNT][HK_QUARANTINE_MOST];
} hk_quarantine_t;

/* How many blocks of a class may wait. */
HK_INLINE unsigned hk_quarantine_room(unsigned cls) {
    const size_t bytes = hk_guard->quarantine_bytes;
    const size_t blocks = bytes * hk_classes[cls].reciprocal >> 40; /* hk_class_index() */
    return bytes == 0 ? 0 : (unsigned)HK_CLAMP(blocks, 1, HK_QUARANTINE_MOST);
}

/* Puts p in where the quarantine is not full; returns p where it may hold none. */
void *hk_quarantine_fill(hk_quarantine_t *quarantine, unsigned cls, void *p);

/* Puts p in; returns the block that goes out for it, NULL: none. */
HK_INLINE void *hk_quarantine_put(hk_quarantine_t *q, unsigned cls, void *p) {
    const unsigned full = q->full[cls];
    if (HK_UNLIKELY(full == 0))
        return hk_quarantine_fill(q, cls, p);
    void **place = &q->blocks[cls][hk_random_below(&q->stream, full)];
    void *out = *place;
    *place = p;
    return out;
}

/* Takes one out; NULL: there is none. */
void *hk_quarantine_take(hk_quarantine_t *quarantine, unsigned cls);

#endif
