/* Magazines at the boundary: how large each one is, how it is refilled from the thread's heap and
 * how it makes room. The thread is entered, or its record is an orphan's and the registry locked,
 * unless a comment says otherwise; hk_magazine_take() and hk_magazine_give() are hits, which need
 * neither. */
#pragma once

#include "config/config.h"
#include "front/thread.h"

/* What unused bins point at: empty, as *top is NULL, and with limit == top also full. */
extern void *hk_unused_bin[1];

/* Makes all bins unused. Blocks in them are forgotten. */
void hk_magazines_reset(hk_thread_t *thread);

/* Gives all blocks back to their slabs. */
void hk_magazines_flush(hk_thread_t *thread);

/* The bytes of the blocks in the magazines. */
size_t hk_magazines_bytes(const hk_thread_t *thread);

/* The magazine's slots, in the record for up to HK_FEW blocks, else in its rest; and how many
 * blocks it holds. For the owner. */
HK_INLINE void **hk_magazine_slots(const hk_thread_t *thread, unsigned cls) {
    return thread->cache.limit[cls] - thread->magazines[cls].capacity;
}
HK_INLINE unsigned hk_magazine_held(const hk_thread_t *thread, unsigned cls) {
    return (unsigned)(hk_load_relaxed(&thread->cache.top[cls]) - hk_magazine_slots(thread, cls));
}

/* How many blocks it holds, for any thread: as of some moment, and 0 while the magazine moves. */
HK_INLINE unsigned hk_magazine_count(const hk_thread_t *thread, unsigned cls) {
    hk_thread_rest_t *rest = hk_load_acquire(&thread->rest);
    const unsigned place = rest != NULL ? hk_load_acquire(&rest->place[cls]) : 0;
    const unsigned taken = rest != NULL ? hk_load_acquire(&rest->emptied[cls]) : 0;
    void **top = hk_load_acquire(&thread->cache.top[cls]);
    size_t among_few = ((uintptr_t)top - (uintptr_t)thread->few[cls]) / sizeof *top;
    if (among_few <= HK_FEW)
        return (unsigned)hk_minus(among_few, taken);
    if (top == hk_unused_bin || rest == NULL || place == HK_SLOT_COUNT ||
        hk_load_relaxed(&rest->place[cls]) != place)
        return 0;
    return (unsigned)hk_minus((size_t)(top - rest->slots), place + taken);
}

/* Moves the magazine's blocks down over its lowest slots, of which the purger emptied so many. */
void hk_magazine_close_ranks(hk_thread_t *thread, unsigned cls, unsigned emptied);

/* The block on top, or NULL. */
HK_INLINE void *hk_magazine_take(hk_thread_t *thread, unsigned cls) {
    return hk_hit_pop_class(&thread->cache, cls);
}

/* Takes up to `most` blocks from the top, the top one last; returns how many. */
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

/* What all magazines of a thread together may hold, in bytes. */
HK_INLINE size_t hk_magazines_budget(void) { return hk_option(tcache_kb) * HK_KIB; }

/* What they may hold where there are many threads: an equal part of what all threads' magazines
 * may, and no more than that budget. Each magazine may have one block even so. */
size_t hk_magazines_part(void);

/* By how many blocks a magazine of capacity `now` can grow towards `wanted`: up to the class's
 * refill, and by no more than `budget` bytes. */
unsigned hk_magazine_more(unsigned cls, unsigned now, unsigned wanted, size_t budget);

/* Enlarges the magazine to this capacity, within these bounds. */
void hk_magazine_reserve(hk_thread_t *thread, unsigned cls, unsigned capacity);

/* The same, and fills it from the heap up to so many blocks. */
void hk_magazine_fill(hk_thread_t *thread, unsigned cls, unsigned blocks);

/* Prewarm (front/prewarm.c): room and blocks that a thread's magazines have before its first
 * allocation, as the options say: none by default, and lean suppresses the blocks. The thread is
 * entered, or its record is being attached. */
void hk_prewarm(hk_thread_t *thread);

/* Whether the options ask for that. */
bool hk_prewarm_is_wanted(void);

/* Prints a line on stderr for each option that asks for more blocks than a thread will get, with
 * how many it gets and why. Once per process. */
void hk_prewarm_check(void);

/* Takes a block where the magazine is empty: refills it from the heap, or takes from the crowd's
 * shelf (front/crowd.h); NULL: out of memory. Gives one back where the magazine is full: makes
 * room, or puts it on the shelf. *moved and the result: blocks that came from slabs or went back
 * for that; 0 where the magazine was enlarged. */
void *hk_magazine_refill_and_take(hk_thread_t *thread, unsigned cls, unsigned *moved);
unsigned hk_magazine_flush_and_give(hk_thread_t *thread, unsigned cls, void *p);

/* For an unobserved thread: a block, NULL: out of memory; and its way back. */
HK_INLINE void *hk_magazine_take_or_refill(hk_thread_t *thread, unsigned cls) {
    void *p = hk_magazine_take(thread, cls);
    unsigned moved;
    return p != NULL ? p : hk_magazine_refill_and_take(thread, cls, &moved);
}

HK_INLINE void hk_magazine_give_or_flush(hk_thread_t *thread, unsigned cls, void *p) {
    if (!hk_magazine_give(thread, cls, p))
        hk_magazine_flush_and_give(thread, cls, p);
}
