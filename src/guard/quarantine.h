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
    uint64_t dice; /* a number of it, of which each exchange takes six bits; 1: used up */
    uint8_t held[HK_CLASS_COUNT];
    uint8_t last[HK_CLASS_COUNT]; /* the last place, as soon as all are taken; 0 before that */
    void *blocks[HK_CLASS_COUNT][HK_QUARANTINE_MOST];
} hk_quarantine_t;

/* How many blocks of a class may wait: a power of two, or none. */
HK_INLINE unsigned hk_quarantine_room(unsigned cls) {
    const size_t bytes = hk_guard->quarantine_bytes;
    const size_t blocks = bytes * hk_classes[cls].reciprocal >> 40; /* hk_class_index() */
    const unsigned most = (unsigned)HK_CLAMP(blocks, 1, HK_QUARANTINE_MOST);
    return bytes == 0 ? 0 : 1u << (31 - __builtin_clz(most));
}

/* hk_quarantine_put() where there is a free place, or no place at all, or no number. */
void *hk_quarantine_put_slow(hk_quarantine_t *quarantine, unsigned cls, void *p);

/* NULL: not that easy. */
HK_INLINE void *hk_quarantine_exchange(hk_quarantine_t *q, unsigned cls, void *p) {
    const uint64_t dice = q->dice;
    const unsigned last = q->last[cls];
    if (HK_UNLIKELY(last == 0 || dice <= 1))
        return NULL;
    void **place = &q->blocks[cls][dice & last];
    void *out = *place;
    if (out == NULL)
        __builtin_unreachable(); /* all places are taken */
    *place = p;
    q->dice = dice / HK_QUARANTINE_MOST;
    return out;
}

/* Puts p in; returns the block that goes out for it, NULL: none. */
HK_INLINE void *hk_quarantine_put(hk_quarantine_t *q, unsigned cls, void *p) {
    void *out = hk_quarantine_exchange(q, cls, p);
    return HK_LIKELY(out != NULL) ? out : hk_quarantine_put_slow(q, cls, p);
}

/* Takes one out; NULL: there is none. */
void *hk_quarantine_take(hk_quarantine_t *quarantine, unsigned cls);

#endif
