/* Magazines at the boundary: how large each one is, how it is refilled from the thread's heap and
 * how it makes room. The thread is entered in all of these. */
#pragma once

#include "config/config.h"
#include "front/thread.h"

/* What a bin points at that is not in use: empty, and with limit == top also full. */
extern void *hk_unused_bin[1];

/* All bins unused. Blocks that were in them are forgotten. */
void hk_magazines_reset(hk_thread_t *thread);

/* Whoever has them next is of no crowd before he has come to one; but under a guard, where they were filled by one. */
void hk_magazines_leave_crowd(hk_thread_t *thread);

/* Gives all blocks back to their slabs. */
void hk_magazines_flush(hk_thread_t *thread);

/* The blocks in the magazines. */
size_t hk_magazines_bytes(const hk_thread_t *thread);

/* Where the magazine's slots are, with few in the record, with more in its rest; and its blocks. For the owner. */
HK_INLINE void **hk_magazine_slots(const hk_thread_t *thread, unsigned cls) {
    return thread->cache.limit[cls] - thread->magazines[cls].capacity;
}
HK_INLINE unsigned hk_magazine_held(const hk_thread_t *thread, unsigned cls) {
    return (unsigned)(hk_load_relaxed(&thread->cache.top[cls]) - hk_magazine_slots(thread, cls));
}

/* The blocks as any thread sees them: as of some moment, and none while the magazine moves. */
HK_INLINE unsigned hk_magazine_count(const hk_thread_t *thread, unsigned cls) {
    hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    const unsigned place = rest != NULL ? hk_load_acquire(&rest->place[cls]) : 0;
    void **top = hk_load_acquire(&thread->cache.top[cls]);
    const unsigned taken = rest != NULL ? hk_load_relaxed(&rest->emptied[cls]) : 0;
    size_t among_few = ((uintptr_t)top - (uintptr_t)thread->few[cls]) / sizeof *top;
    if (among_few <= HK_FEW)
        return (unsigned)hk_minus(among_few, taken);
    if (top == hk_unused_bin || rest == NULL || place == HK_SLOT_COUNT ||
        hk_load_relaxed(&rest->place[cls]) != place)
        return 0;
    return (unsigned)hk_minus((size_t)(top - rest->slots), place + taken);
}

/* Its lowest slots, so many, have been emptied while the thread was idle. */
void hk_magazine_close_ranks(hk_thread_t *thread, unsigned cls, unsigned emptied);

/* The block on top, or NULL. */
HK_INLINE void *hk_magazine_take(hk_thread_t *thread, unsigned cls) {
    return hk_hit_pop_class(&thread->cache, cls);
}

/* Takes up to so many of those on top, which stay in their order; returns how many. */
HK_INLINE unsigned hk_magazine_take_some(hk_thread_t *thread, unsigned cls, void **blocks,
                                         unsigned most) {
    void **top = hk_load_relaxed(&thread->cache.top[cls]);
    const unsigned n = (unsigned)hk_min(hk_magazine_held(thread, cls), most);
    for (unsigned i = 0; i < n; i++)
        blocks[i] = top[(ptrdiff_t)i + 1 - (ptrdiff_t)n];
    hk_store_relaxed(&thread->cache.top[cls], top - n);
    return n;
}

/* Puts p on top; false: the magazine is full. */
HK_INLINE bool hk_magazine_give(hk_thread_t *thread, unsigned cls, void *p) {
    return hk_hit_push_kind(&thread->cache, cls, p);
}

/* What all magazines of a thread may hold, in bytes. */
HK_INLINE size_t hk_magazines_budget(void) { return hk_option(tcache_kb) * HK_KIB; }

/* How many bytes they may still grow by. The record of a thread that allocated before the options were read may
 * have more than they allow. */
size_t hk_magazines_left(const hk_thread_t *thread);

/* What they may hold where there are many threads: of what all threads' may, the same for each, and no more
 * than that budget. Each magazine may have one block all the same. */
size_t hk_magazines_part(void);

/* How many blocks more a magazine that has room for `now` can be made to hold, of `wanted` in all:
 * as far as its class's most one way and a budget of so many bytes go. */
unsigned hk_magazine_more(unsigned cls, unsigned now, unsigned wanted, size_t budget);

/* Makes the magazine large enough for so many blocks, so far as that. */
void hk_magazine_reserve(hk_thread_t *thread, unsigned cls, unsigned capacity);

/* The same, and fills it up to so many blocks. */
void hk_magazine_fill(hk_thread_t *thread, unsigned cls, unsigned blocks);

/* A block where the magazine is empty, filled from the heap, and its way back where it is full and makes room; or by a
 * crowd's shelf (front/crowd.h). NULL: out of memory. How many blocks came, or went back to slabs, for that: 0 where the magazine was enlarged. */
void *hk_magazine_refill_and_take(hk_thread_t *thread, unsigned cls, unsigned *moved);
unsigned hk_magazine_flush_and_give(hk_thread_t *thread, unsigned cls, void *p);

/* The product's way: a block, NULL when out of memory; and its way back. */
HK_INLINE void *hk_magazine_take_or_refill(hk_thread_t *thread, unsigned cls) {
    void *p = hk_magazine_take(thread, cls);
    unsigned moved;
    return p != NULL ? p : hk_magazine_refill_and_take(thread, cls, &moved);
}

HK_INLINE void hk_magazine_give_or_flush(hk_thread_t *thread, unsigned cls, void *p) {
    if (!hk_magazine_give(thread, cls, p))
        hk_magazine_flush_and_give(thread, cls, p);
}
