#include "front/magazine.h"

#include "backend/region.h"
#include "base/counters.h"
#include "front/crowd.h"
#include "front/guarded.h"
#include "policy/look.h"
#include "policy/purger.h"

enum {
    SHRINK = 32,
    IDLE_VISITS = 256,
    LOOKS = 8,
    PREFETCHED = 4,
    SWEPT_FROM = 14,
    FEW_SLABS = 48,
    FEW_AT_ONCE = 4,
    MORE_AT_ONCE = 32,
    OFTEN = 24,
    SPARSE = 8, /* capacity of magazines of a sparse class (backend/heap.h) */
    SURE = 3,   /* a thread that only freed between so many flushes does nothing else */
    SLACK = 256 /* slots that may lie unused between magazines */
};

#define NOTED_AT_ONCE (64 * HK_KIB)

/* A heap has grown where its new slabs brought in so much memory, and such a share of all that is
 * handed out. */
#define GROWN (512 * HK_KIB)
enum { GROWN_SHARE = 8 };

/* What the magazines of all threads together may hold, unless HAKMEM_TCACHE_KB says what one
 * thread's may: so much, less in proportion as threads exceed HK_MANY_THREADS, or a share of the
 * memory in use where that is more. */
#define ALL_THREADS (32 * HK_MIB)
enum { ALL_THREADS_SHARE = 8 };

void *hk_unused_bin[1];

void hk_magazines_reset(hk_thread_t *thread) {
    for (unsigned kind = 0; kind < HK_KIND_COUNT; kind++) {
        hk_store_relaxed(&thread->cache.top[kind], hk_unused_bin);
        thread->cache.limit[kind] = hk_unused_bin;
    }
    memset(thread->magazines, 0, sizeof thread->magazines);
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (rest != NULL)
        rest->used = rest->taken = 0;
    thread->allotted = 0;
}

/* Tells the purger of bytes given back once they are many: its counter is one cache line for all
 * threads. */
static void note(hk_thread_t *thread, size_t bytes) {
    thread->unnoted += bytes;
    if (thread->unnoted < NOTED_AT_ONCE)
        return;
    hk_purger_note(thread->unnoted);
    thread->unnoted = 0;
}

/* Makes the magazine empty and full while its blocks go back or it moves, for a signal handler that
 * interrupts that. Returns how many blocks it held, which a handler may have changed since the
 * caller counted. What a handler frees between two of these steps may be lost, but lies in a slot
 * of the magazine: with the limit alone set, it would be put behind that. */
static unsigned shut(hk_thread_t *thread, unsigned cls, void **slots) {
    const unsigned held = (unsigned)(hk_load_relaxed(&thread->cache.top[cls]) - slots);
    hk_store_relaxed(&thread->cache.top[cls], slots);
    atomic_signal_fence(memory_order_seq_cst);
    thread->cache.limit[cls] = slots;
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&thread->cache.top[cls], slots);
    atomic_signal_fence(memory_order_seq_cst);
    return held;
}

/* Opens it at these slots, with so many blocks. release: a thread that counts sees the old place
 * and no blocks, or the new place, or that the magazine moves. */
static void open_again(hk_thread_t *thread, unsigned cls, void **slots, unsigned held) {
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_release(&thread->cache.top[cls], slots);
    atomic_signal_fence(memory_order_seq_cst);
    thread->cache.limit[cls] = slots + thread->magazines[cls].capacity;
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_release(&thread->cache.top[cls], slots + held);
}

void hk_magazine_close_ranks(hk_thread_t *thread, unsigned cls, unsigned emptied) {
    void **slots = hk_magazine_slots(thread, cls);
    const unsigned left = (unsigned)hk_minus(shut(thread, cls, slots), emptied);
    hk_store_release(&hk_load_relaxed(&thread->rest)->emptied[cls], (uint16_t)0);
    memmove(slots + 1, slots + 1 + emptied, left * sizeof *slots);
    thread->magazines[cls].flushed = 0; /* only_frees() would look at slots that have changed */
    open_again(thread, cls, slots, left);
}

/* Gives back at least `least` of the oldest n blocks; returns how many. Where these are few, as
 * many of the newest take their slots, because moving all others down takes longer. */
static unsigned give_oldest(hk_thread_t *thread, unsigned cls, unsigned n, unsigned least) {
    void **slots = hk_magazine_slots(thread, cls);
    const unsigned held = shut(thread, cls, slots);
    n = (unsigned)hk_min(n, held);
    n = hk_heap_give_some(&thread->heap, cls, slots + 1, n, (unsigned)hk_min(least, n));
    const unsigned left = held - n;
    note(thread, (size_t)n * hk_classes[cls].size);
    if (n <= left / 4)
        memcpy(slots + 1, slots + 1 + left, n * sizeof *slots);
    else
        memmove(slots + 1, slots + 1 + n, left * sizeof *slots);
    open_again(thread, cls, slots, left);
    return n;
}

HK_INLINE void empty(hk_thread_t *thread, unsigned cls) {
    const unsigned n = hk_magazine_held(thread, cls);
    if (n != 0)
        give_oldest(thread, cls, n, n);
}

void hk_magazines_flush(hk_thread_t *thread) {
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        empty(thread, cls);
}

/* ---- how large ---- */

size_t hk_magazines_part(void) {
    const size_t own = hk_magazines_budget(), threads = hk_load_relaxed(&hk_heap_threads);
    if (threads * own <= ALL_THREADS || hk_option_origin(tcache_kb) != HK_FROM_DEFAULT)
        return own;
    const size_t all =
        threads <= HK_MANY_THREADS ? ALL_THREADS : ALL_THREADS * HK_MANY_THREADS / threads;
    return hk_min(own, hk_max(all, hk_look_in_use() / ALL_THREADS_SHARE) / threads);
}

/* 0 also for a thread that allocated before the options were read, and may have more than they
 * allow. */
HK_INLINE size_t budget_left(const hk_thread_t *thread) {
    return hk_minus(hk_magazines_budget(), thread->allotted);
}

size_t hk_magazines_bytes(const hk_thread_t *thread) {
    size_t bytes = 0;
    for (unsigned cls = 1, end = hk_class_end(); cls < end; cls++)
        bytes += (size_t)hk_magazine_held(thread, cls) * hk_classes[cls].size;
    return bytes;
}

/* Moves the magazine to `place` in the rest, or to the record's own slots, with a new capacity.
 * Blocks beyond that, which a signal handler has freed since the caller made room, go back to their
 * slabs. */
static void move(hk_thread_t *thread, unsigned cls, unsigned capacity, unsigned place) {
    void **slots = hk_magazine_slots(thread, cls);
    unsigned held = shut(thread, cls, slots);
    hk_thread_rest_t *rest = capacity > HK_FEW ? hk_load_relaxed(&thread->rest) : NULL;
    void **to = rest != NULL ? rest->slots + place : thread->few[cls];
    if (HK_UNLIKELY(held > capacity)) {
        hk_heap_give(&thread->heap, cls, slots + 1 + capacity, held - capacity);
        held = capacity;
    }
    memmove(to, slots, (held + 1) * sizeof *to);
    if (rest != NULL)
        hk_store_relaxed(&rest->place[cls], (uint16_t)HK_SLOT_COUNT);
    thread->magazines[cls].capacity = capacity & 2047;
    open_again(thread, cls, to, held);
    if (rest != NULL)
        hk_store_release(&rest->place[cls], (uint16_t)place);
}

/* The class whose magazine is the first in the rest from slot `from` on; 0: none. */
static unsigned class_from(const hk_thread_t *thread, const hk_thread_rest_t *rest, unsigned from) {
    unsigned first = 0, at = HK_SLOT_COUNT;
    for (unsigned cls = 1, end = hk_class_end(); cls < end; cls++) {
        const unsigned place = hk_load_relaxed(&rest->place[cls]);
        if (thread->magazines[cls].capacity <= HK_FEW || place < from || place >= at)
            continue;
        first = cls;
        at = place;
    }
    return first;
}

/* A place for n slots behind all magazines. Where too many slots between them are unused the
 * magazines close ranks first, so that few pages are touched. */
static unsigned find_place(hk_thread_t *thread, hk_thread_rest_t *rest, unsigned n) {
    const unsigned all = rest->taken + n;
    if (rest->used + n > hk_min(all + all / 2 + SLACK, HK_SLOT_COUNT)) {
        for (unsigned cls, from = 0, end = 0; (cls = class_from(thread, rest, from)) != 0;) {
            from = hk_load_relaxed(&rest->place[cls]) + 1u;
            move(thread, cls, thread->magazines[cls].capacity, end);
            end += thread->magazines[cls].capacity + 1u;
        }
        rest->used = rest->taken;
    }
    rest->used += n;
    hk_assert(rest->used <= HK_SLOT_COUNT);
    return rest->used - n;
}

static void set_capacity(hk_thread_t *thread, unsigned cls, unsigned capacity) {
    hk_magazine_t *mag = &thread->magazines[cls];
    hk_thread_rest_t *rest = capacity > HK_FEW ? hk_thread_rest(thread) : NULL;
    if (rest == NULL)
        capacity = (unsigned)hk_min(capacity, HK_FEW);
    thread->allotted -= (size_t)mag->capacity * hk_classes[cls].size;
    thread->allotted += (size_t)capacity * hk_classes[cls].size;
    unsigned place = 0;
    if (rest != NULL) {
        place = capacity > mag->capacity ? find_place(thread, rest, capacity + 1)
                                         : hk_load_relaxed(&rest->place[cls]);
        rest->taken += capacity + 1;
    }
    if (mag->capacity > HK_FEW)
        hk_load_relaxed(&thread->rest)->taken -= mag->capacity + 1u;
    move(thread, cls, capacity, place);
}

/* Halves the capacity, by no more than SHRINK blocks, for the sake of another magazine. */
static void shrink(hk_thread_t *thread, unsigned cls) {
    const unsigned now = thread->magazines[cls].capacity;
    const unsigned capacity = now - (unsigned)hk_min((now + 1) / 2, SHRINK);
    const unsigned held = hk_magazine_held(thread, cls);
    if (held > capacity)
        give_oldest(thread, cls, held - capacity, held - capacity);
    set_capacity(thread, cls, capacity);
}

/* Looks at a few other magazines in turn, and shrinks the first that was not visited lately. */
static void take_from_idle(hk_thread_t *thread, unsigned cls) {
    const unsigned end = hk_class_end();
    for (unsigned looks = 0; looks < LOOKS; looks++) {
        const unsigned i = thread->idle_at + 1u < end ? thread->idle_at + 1u : 1;
        const hk_magazine_t *mag = &thread->magazines[i];
        thread->idle_at = (uint16_t)i;
        if (i == cls || mag->capacity <= HK_FEW ||
            (uint16_t)(thread->visits - mag->visited) <= IDLE_VISITS)
            continue;
        shrink(thread, i);
        return;
    }
}

/* Shrinks the other magazine with room for the most bytes; false: there is none. */
static bool take_from_largest(hk_thread_t *thread, unsigned cls) {
    unsigned victim = 0;
    size_t most = 0;
    for (unsigned i = 1, end = hk_class_end(); i < end; i++) {
        const size_t bytes = (size_t)thread->magazines[i].capacity * hk_classes[i].size;
        if (i == cls || bytes <= most)
            continue;
        victim = i;
        most = bytes;
    }
    if (victim != 0)
        shrink(thread, victim);
    return victim != 0;
}

/* By how many blocks a magazine should grow. The first few have slots in the record; a record that
 * has its rest already, from an earlier thread, leaves that step out. */
static unsigned growth(const hk_thread_t *thread, unsigned cls, unsigned now) {
    if (now == 0 && thread->magazines[cls].crowd) /* only under a guard */
        return HK_SHUFFLED;
    if (now == 0 && hk_load_relaxed(&thread->rest) == NULL)
        return HK_FEW;
    return now < HK_SOME ? HK_SOME - now : now;
}

/* Each visit to the boundary doubles a magazine, up to `most` blocks and within the thread's part
 * of bytes, for which idle magazines shrink: so magazines are large only where there is traffic. A
 * magazine without any capacity takes from the largest. It may have one block whatever the budget
 * says; under a guard, as far as that allows, as many as are shuffled together: blocks that come
 * one by one would be in no random order. */
static void enlarge(hk_thread_t *thread, unsigned cls, unsigned most, size_t part) {
    const hk_class_t *c = &hk_classes[cls];
    const unsigned now = thread->magazines[cls].capacity;
    unsigned more = growth(thread, cls, now);
    if (HK_UNLIKELY(hk_option(tcache_adaptive) == 0))
        more = most = (unsigned)hk_max(most, c->refill);
    more = (unsigned)hk_min(more, (size_t)(most - now));
    if (HK_UNLIKELY(thread->allotted + (size_t)more * c->size > part)) {
        take_from_idle(thread, cls);
        while (now == 0 && budget_left(thread) < c->size && take_from_largest(thread, cls))
            continue;
        size_t fit = hk_minus(part, thread->allotted) / c->size;
        if (now == 0) {
            const size_t left = budget_left(thread) / c->size;
            const size_t least = HK_UNLIKELY(hk_guarded()) ? HK_SHUFFLED : 1;
            fit = hk_max(fit, HK_CLAMP(left, 1, least));
        }
        more = (unsigned)hk_min(more, fit);
    }
    if (more != 0)
        set_capacity(thread, cls, now + more);
}

unsigned hk_magazine_more(unsigned cls, unsigned now, unsigned wanted, size_t budget) {
    const hk_class_t *c = &hk_classes[cls];
    wanted = (unsigned)hk_min(wanted, c->refill);
    return wanted > now ? (unsigned)hk_min(wanted - now, budget / c->size) : 0;
}

void hk_magazine_reserve(hk_thread_t *thread, unsigned cls, unsigned capacity) {
    const unsigned now = thread->magazines[cls].capacity;
    unsigned more = hk_magazine_more(cls, now, capacity, budget_left(thread));
    if (more != 0)
        set_capacity(thread, cls, now + more);
}

void hk_magazine_fill(hk_thread_t *thread, unsigned cls, unsigned blocks) {
    hk_magazine_reserve(thread, cls, blocks);
    void **slots = hk_magazine_slots(thread, cls);
    blocks = (unsigned)hk_min(blocks, thread->magazines[cls].capacity);
    for (unsigned held = hk_magazine_held(thread, cls), got; held < blocks; held += got) {
        got = hk_heap_take(&thread->heap, cls, slots + 1 + held, blocks - held);
        if (got == 0)
            break;
        if (HK_UNLIKELY(hk_guarded()))
            hk_guarded_refilled(thread, cls, slots + 1 + held, got);
        hk_store_relaxed(&thread->cache.top[cls], slots + held + got);
    }
}

/* Whether freed blocks of the class are to go back to their slabs soon; not of a thread that only
 * frees. */
HK_INLINE bool is_sparse(const hk_magazine_t *mag, unsigned cls) {
    return HK_UNLIKELY(hk_heap_is_sparse(cls)) && mag->streak < SURE;
}

/* Whether the magazine stays as it is: a guarded thread of the crowd fills it from shared slabs.
 * Without a guard a visit here means that the thread is not, or no longer, of the crowd. */
static bool is_shared_as_is(hk_thread_t *thread, hk_magazine_t *mag) {
    if (HK_LIKELY(!hk_guarded()))
        return (mag->crowd = false);
    if (mag->capacity == 0)
        mag->crowd = hk_crowd_begins(thread);
    return mag->crowd && mag->capacity != 0 && hk_crowd_stays(mag);
}

/* Only a thread that takes and frees in turn gets a wide magazine, and only one to which a good
 * part of the thread's visits go grows beyond HK_SOME. */
static void visit(hk_thread_t *thread, unsigned cls, bool frees) {
    hk_magazine_t *mag = &thread->magazines[cls];
    const hk_class_t *c = &hk_classes[cls];
    const unsigned most = frees != mag->frees ? c->magazine : c->narrow;
    const bool grows = mag->capacity < HK_SOME || (uint16_t)(thread->visits - mag->visited) < OFTEN;
    mag->frees = frees;
    if (!frees)
        mag->streak = 0;
    mag->visited = ++thread->visits;
    if (HK_UNLIKELY(is_shared_as_is(thread, mag)))
        return;
    const size_t part = hk_magazines_part();
    if (HK_UNLIKELY(thread->allotted > part)) /* there are more threads now: its part is smaller */
        take_from_largest(thread, cls);
    if (is_sparse(mag, cls) && mag->capacity >= hk_min(SPARSE, most)) {
        if (mag->capacity > SPARSE)
            shrink(thread, cls);
    } else if (grows && mag->capacity < most) {
        enlarge(thread, cls, most, part);
    }
}

/* After the heap has grown: gives back what lies in magazines not visited since it last did,
 * because that keeps slabs from serving other classes. Not of the class that was just fetched, nor
 * of small classes, where it is little. */
static HK_NOINLINE void sweep(hk_thread_t *thread, unsigned fetched) {
    const unsigned since = (uint16_t)(thread->visits - thread->swept);
    thread->heap.grown = 0;
    thread->swept = thread->visits;
    for (unsigned cls = SWEPT_FROM; cls < hk_class_end(); cls++) {
        const uint16_t idle = (uint16_t)(thread->visits - thread->magazines[cls].visited);
        if (cls != fetched && idle >= since)
            empty(thread, cls);
    }
    hk_heap_collect(&thread->heap);
}

/* ---- in and out ---- */

/* How many blocks a flush gives back, and the refill after it takes: a thread that walks between an
 * empty and a full magazine meets its ends the less often the more go and the fewer come. But where
 * a class has so many slabs that hardly two blocks share one, each block costs cache misses of its
 * own, and no free shall take long. */
static unsigned at_once(unsigned cls) {
    return hk_pool_carved(cls) <= FEW_SLABS * HK_SLICE ? MORE_AT_ONCE : FEW_AT_ONCE;
}

/* Fetches half of the capacity, so that misses in a row fetch more each time as the magazine grows;
 * all of it once it has grown to its narrow size, and nothing was flushed since the last refill. */
static unsigned refill_from_heap(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = &thread->magazines[cls];
    visit(thread, cls, false);
    void **slots = hk_magazine_slots(thread, cls);
    const hk_class_t *c = &hk_classes[cls];
    hk_assert(hk_magazine_held(thread, cls) == 0);
    const bool whole = mag->flushed == 0 && mag->capacity >= c->narrow;
    const unsigned part = whole ? mag->capacity : (mag->capacity + 1u) / 2;
    unsigned want = (unsigned)hk_min(part, c->refill), got; /* no malloc shall take long */
    if (mag->flushed != 0 && at_once(cls) == MORE_AT_ONCE)
        want = (unsigned)hk_min(want, hk_max(mag->flushed, MORE_AT_ONCE));
    mag->flushed = 0;
    if (HK_UNLIKELY(mag->crowd)) /* only of a guarded thread */
        got = hk_heap_take_for(hk_crowd(thread), cls, slots + 1,
                               (unsigned)hk_min(mag->capacity, HK_SHUFFLED), thread->heap.wanted);
    else
        got = hk_heap_take(&thread->heap, cls, slots + 1, want);
    if (HK_UNLIKELY(hk_guarded()))
        hk_guarded_refilled(thread, cls, slots + 1, got);
    hk_store_relaxed(&thread->cache.top[cls], slots + got);
    if (HK_UNLIKELY(thread->heap.grown >= GROWN) &&
        thread->heap.grown >= hk_region_live() / GROWN_SHARE && hk_option(lean) != 0)
        sweep(thread, cls);
    if (HK_UNLIKELY(hk_option(tcache_prefetch) != 0))
        for (unsigned i = 0; i < PREFETCHED && i < got; i++)
            __builtin_prefetch(slots[got - i], 1);
    return got;
}

/* The hash of an address that mag->left keeps. */
enum { KNOWN = 1023 };
static unsigned known_by(const void *p) { return (uintptr_t)p / 16 & KNOWN; }

/* Whether the thread has probably only freed since the last flush: the block that was on top then
 * still lies where it lay. */
static bool only_frees(hk_thread_t *thread, unsigned cls, unsigned held) {
    const hk_magazine_t *mag = &thread->magazines[cls];
    return mag->flushed != 0 && mag->flushed <= held &&
           known_by(hk_magazine_slots(thread, cls)[held - mag->flushed]) == mag->left;
}

/* Gives back a few of the older half, so that no free takes long; of a thread that only frees,
 * after a while twice as many each time. Nothing where the visit has enlarged the magazine. */
static unsigned flush_to_heap(hk_thread_t *thread, unsigned cls) {
    enum { MOST = 9 };
    hk_magazine_t *mag = &thread->magazines[cls];
    visit(thread, cls, true);
    unsigned held = hk_magazine_held(thread, cls);
    if (held < mag->capacity)
        return 0;
    mag->streak = only_frees(thread, cls, held) ? hk_min(mag->streak + 1u, MOST) & 15 : 0;
    const unsigned doublings = mag->streak < SURE ? 0 : mag->streak - SURE + 1;
    unsigned from = doublings != 0 ? held : (held + 1) / 2;
    size_t least = hk_min((size_t)at_once(cls) << doublings, from);
    if (is_sparse(mag, cls) && held > 1 && held <= SPARSE)
        least = from = held - 1;
    unsigned n = give_oldest(thread, cls, from, (unsigned)least);
    mag->flushed = n & 2047;
    mag->left = known_by(*hk_load_relaxed(&thread->cache.top[cls])) & KNOWN;
    return n;
}

/* ---- the crowd, which has no magazine ---- */

/* Whether the thread belongs to the crowd in this class: it starts there, is still there, or has to
 * give its magazine up now. */
static HK_COLD bool is_of_crowd(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = &thread->magazines[cls];
    if (hk_guarded())
        return false; /* of the crowd too, it keeps its magazine */
    if (mag->crowd)
        return hk_crowd_stays(mag);
    if (mag->capacity == 0)
        return (mag->crowd = hk_crowd_begins(thread));
    if (!hk_crowd_calls())
        return false;
    empty(thread, cls);
    set_capacity(thread, cls, 0);
    return (mag->crowd = true);
}

void *hk_magazine_refill_and_take(hk_thread_t *thread, unsigned cls, unsigned *moved) {
    if (HK_UNLIKELY(hk_threads_are_many()) && is_of_crowd(thread, cls))
        return hk_crowd_take(thread, cls, moved);
    *moved = refill_from_heap(thread, cls);
    return hk_magazine_take(thread, cls);
}

unsigned hk_magazine_flush_and_give(hk_thread_t *thread, unsigned cls, void *p) {
    unsigned moved;
    if (HK_UNLIKELY(hk_threads_are_many()) && is_of_crowd(thread, cls)) {
        moved = hk_crowd_give(thread, cls, p);
        note(thread, (size_t)moved * hk_classes[cls].size);
        return moved;
    }
    moved = flush_to_heap(thread, cls);
    hk_magazine_give(thread, cls, p);
    return moved;
}
