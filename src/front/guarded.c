#include "front/guarded.h"

#include <errno.h>
#include <string.h>

#include "backend/heap.h"
#include "backend/large.h"
#include "backend/meta.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"
#include "front/alone.h"
#include "front/boundary.h"
#include "front/emergency.h"
#include "front/magazine.h"
#include "front/observed.h"
#include "front/sampled.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "guard/block.h"
#include "guard/fence.h"
#include "guard/foreign.h"

/* ---- the start, and the thread's part ---- */

/* The calling thread's quarantine. NULL: it has none. */
HK_INLINE hk_quarantine_t *own_quarantine(void) {
    return hk_quarantine_of(hk_load_relaxed(&hk_tc)->thread);
}

void hk_guarded_start(void) {
    const bool has_record = hk_load_relaxed(&hk_tc)->thread != NULL;
    hk_thread_t *thread = has_record ? hk_thread_enter_patiently() : NULL;
    if ((has_record && thread == NULL) || !hk_guard_start())
        hk_config_warn("HAKMEM_GUARD", "1", "there is no memory for it, or a fork is under way",
                       "nothing is checked");
    if (thread != NULL)
        hk_thread_leave(thread);
}

void hk_guarded_set_up_locked(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (rest == NULL)
        return;
    if (hk_sampling())
        hk_store_relaxed(&rest->until_sample, hk_sample_gap());
    if (!hk_guarded() || hk_quarantine_of(thread) != NULL)
        return;
    hk_quarantine_t *quarantine = hk_meta_alloc(hk_quarantine_bytes());
    if (quarantine == NULL)
        return;
    hk_quarantine_begin(quarantine);
    hk_store_release(&thread->quarantine, quarantine);
    hk_alone_tell(thread);
}

void hk_guarded_refilled(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    hk_quarantine_t *q = hk_quarantine_of(thread);
    uint64_t other = q == NULL ? hk_guard_stream() : 0; /* a new thread has no quarantine yet */
    hk_block_touch(blocks, n, cls);
    hk_guard_shuffle(q != NULL ? &q->stream : &other, blocks, n);
}

/* ---- malloc ---- */

/* The bytes that a block of n takes: with room for its tail, and for a window to check that
 * (guard/tail.h). */
static size_t with_tail(size_t n) { return hk_max(n + hk_guard->tail, HK_TAIL_WINDOW); }

/* Gives the class all its places in quarantine. Where threads are many it has few, until its thread
 * has freed many blocks of it. Once closed it is asked again: a signal handler may have done this
 * meanwhile. */
static void grow(hk_thread_t *thread, hk_quarantine_t *q, unsigned cls, bool frees) {
    const bool may = hk_quarantine_is_small(q, cls) && !hk_quarantine_is_busy(q) &&
                     (!hk_threads_are_many() || (frees && hk_quarantine_visited_often(q, cls)));
    if (HK_LIKELY(!may) || !hk_gate_enter(thread))
        return;
    const uint64_t dice = hk_quarantine_close(q);
    if (HK_LIKELY(hk_quarantine_is_small(q, cls)))
        hk_quarantine_grow(q, cls);
    hk_quarantine_open(q, dice);
    hk_gate_leave(thread);
}

/* Whether the process has, and had, only one thread, if the C library says so: then no other thread
 * is at a block. */
static bool has_one_thread(void) {
    return &__libc_single_threaded != NULL && __libc_single_threaded != 0;
}

/* Long visits that a thread makes which does only a little. */
enum { HARDLY = 16 };

/* Overwritten blocks are found when they are freed or serve again. Those that came from slabs last
 * are checked sooner: at each long visit of a thread that has made few, and now and then later. The
 * quarantine is closed. */
static void look_again(hk_quarantine_t *q) {
    enum { NOW_AND_THEN = 128 };
    const unsigned visits = ++q->visits_of_all;
    if (HK_LIKELY(visits > HARDLY && visits % NOW_AND_THEN != 0) || !has_one_thread())
        return;
    for (unsigned i = 0; i < HK_QUARANTINE_RECENT; i++)
        if (q->recent[i] != NULL && HK_UNLIKELY(!hk_block_look_around(q->recent[i])))
            q->recent[i] = NULL; /* reported already */
}

/* Takes a few blocks from the magazine, where none has waited, or only those that a signal handler
 * has left since. They keep the magazine's order, which is nearly that of memory: a thread that
 * uses blocks in the order in which it asked for them would wait for memory if addresses ran
 * backwards. Returns how many. */
static unsigned refill(hk_thread_t *thread, hk_quarantine_t *q, unsigned cls) {
    void *blocks[HK_QUARANTINE_MORE_FRESH];
    if (HK_UNLIKELY(hk_load_relaxed(&thread->gate) == HK_INSIDE))
        return 0; /* a handler's thread may be about to take the magazine's top block */
    grow(thread, q, cls, false);
    const uint64_t dice = hk_quarantine_close(q);
    look_again(q);
    const unsigned fresh =
        q->visits_of_all <= HARDLY ? HK_QUARANTINE_FRESH : HK_QUARANTINE_MORE_FRESH;
    const unsigned most = (unsigned)hk_min(hk_quarantine_out_left(q, cls), fresh);
    const unsigned n = hk_magazine_take_some(thread, cls, blocks, most);
    if (n != 0)
        hk_quarantine_put_fresh(q, cls, blocks, n);
    hk_quarantine_open(q, dice);
    return n;
}

/* Hands out the block that was just taken, whatever is odd about it, and opens the quarantine. */
static HK_NOINLINE void *hand_out_any(hk_quarantine_t *q, uint64_t dice, unsigned cls, size_t n,
                                      hk_by_t by) {
    const hk_waiting_t is = hk_load_relaxed(&q->bays[cls].top)[1];
    hk_block_hand_out_any(is, cls, n, by);
    hk_quarantine_open(q, dice);
    return is.p;
}

/* An interrupted thread may be about to take the top block of quarantine or magazine, so its signal
 * handler gets neither. */
static HK_NOINLINE void *of_class(size_t bytes, size_t n, size_t align, hk_by_t by) {
    const unsigned cls = hk_class_of(bytes);
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    hk_quarantine_t *q = hk_quarantine_of(thread);
    void *p = NULL;
    if (q != NULL && HK_UNLIKELY(hk_quarantine_is_busy(q))) {
        p = hk_emergency_alloc(n, hk_max(align, 16));
        return p != NULL ? p : hk_refused();
    }
    if (q != NULL && (p = hk_quarantine_take(q, cls).p) == NULL && refill(thread, q, cls) != 0)
        p = hk_quarantine_take(q, cls).p;
    if (p == NULL)
        p = hk_take_block(cls, bytes, align);
    if (p == NULL || hk_map_kind(p) != cls) /* NULL, or the emergency heap's */
        return p;
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    if (q != NULL)
        hk_quarantine_note(q, p);
    hk_block_hand_out_any((hk_waiting_t){p, hk_shadow_of(p, cls)}, cls, n, by);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    return p;
}

void *hk_guarded_aligned(size_t n, size_t align, hk_by_t by) {
    if (n > HK_MOST_BYTES || align > HK_MOST_BYTES)
        return hk_refused();
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    void *p = hk_sampling() ? hk_sampled_malloc(thread, n, align, by) : NULL;
    if (p != NULL)
        return p;
    const size_t bytes = align > 8 ? hk_size_for_alignment(with_tail(n), align) : with_tail(n);
    if ((n == 0 || bytes > HK_MID_MAX || bytes - n > HK_BLOCK_MOST_SLACK) && hk_guard->fences) {
        hk_thread_served(); /* fences need no record, but keep_others_out() must see this thread */
        p = hk_fence_alloc(n, align, false, by);
    }
    if (p != NULL)
        return p;
    return bytes <= HK_MID_MAX ? of_class(bytes, n, align, by) : hk_take_clear(n, align);
}

/* Where no block has waited: the short way again, once a few of the magazine's blocks are ready. */
static HK_NOINLINE void *serve_refilled(unsigned cls, size_t n, hk_by_t by, hk_quarantine_t *q) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const bool refilled = !hk_quarantine_is_busy(q) && refill(thread, q, cls) != 0;
    return refilled ? hk_guarded_new_alone(n, by, q) : of_class(with_tail(n), n, 8, by);
}

HK_INLINE void *serve(size_t n, hk_by_t by, hk_quarantine_t *q) {
    if (HK_UNLIKELY(n - 1 >= HK_MID_MAX - 1))
        return hk_guarded_aligned(n, 8, by);
    /* classes are multiples of 16 bytes but for the first, too short for a window; 0 while the
     * table is hidden */
    const unsigned cls = hk_load_acquire(&hk_class_of_size[(n + 15 + hk_guard->tail) / 16 * 2]);
    const uint64_t dice = hk_quarantine_close(q);
    if (HK_LIKELY(dice != 0)) { /* else a signal handler has interrupted its thread */
        hk_bay_t *bay = hk_quarantine_bay(q, cls);
        const hk_waiting_t *got = hk_quarantine_take_closed(bay);
        if (HK_LIKELY(got != NULL)) {
            void *p = got->p;
            hk_assert(bay->room == hk_classes[cls].size);
            if (HK_UNLIKELY(!hk_block_hand_out(bay, got, n, by)))
                return hand_out_any(q, dice, cls, n, by);
            hk_quarantine_open(q, dice);
            return p;
        }
        hk_quarantine_open(q, dice);
    }
    return serve_refilled(cls, n, by, q);
}

void *hk_guarded_malloc_alone(size_t n, hk_quarantine_t *q) { return serve(n, HK_BY_MALLOC, q); }

void *hk_guarded_new_alone(size_t n, hk_by_t by, hk_quarantine_t *q) { return serve(n, by, q); }

void *hk_guarded_malloc(size_t n, hk_by_t by) {
    hk_quarantine_t *q = HK_LIKELY(!hk_sampling()) ? own_quarantine() : NULL;
    return q != NULL ? hk_guarded_new_alone(n, by, q) : hk_guarded_aligned(n, 8, by);
}

/* ---- free ---- */

/* For a free by a thread without a record. One that frees before it allocates gets its own, and
 * counts as a second thread (hk_block_set_free). One past its end gets the shared record, locked,
 * which keeps out a look at all blocks (front/guarded_end.c). NULL: it has a record of its own, or
 * can have none. */
static hk_thread_t *enter_past_end(void) {
    hk_thread_t *own = hk_load_relaxed(&hk_tc)->thread;
    hk_thread_t *thread = own == NULL ? hk_thread_enter_to_free() : NULL;
    if (thread == NULL || thread->shared)
        return thread;
    hk_thread_leave(thread);
    return NULL;
}

static HK_NOINLINE void free_other(void *p, unsigned kind, hk_by_t by, size_t n) {
    if (kind == HK_KIND_FENCED) {
        hk_thread_t *past_end = enter_past_end();
        hk_fence_free(p, by, n);
        if (past_end != NULL)
            hk_thread_leave(past_end);
        return;
    }
    if (kind == HK_KIND_FREE || kind == HK_KIND_INTERIOR) {
        hk_guard_fault(kind == HK_KIND_FREE ? HK_DOUBLE_FREE : HK_INVALID_FREE, p, HK_NO_SIZE,
                       HK_NOWHERE);
        return;
    }
    if (kind != HK_KIND_FOREIGN || (p != NULL && !hk_guard_disowns(p, HK_INVALID_FREE)))
        hk_free_long(p);
}

/* Half of the blocks that have waited go to the magazine, or to their slabs where that has no
 * room. */
static void make_room(hk_thread_t *thread, hk_quarantine_t *q, unsigned cls) {
    uint64_t dice = hk_quarantine_close(q);
    const hk_waiting_t *place;
    for (unsigned i = hk_quarantine_most_out(q, cls) / 2;
         i > 0 && (place = hk_quarantine_take_closed(&q->bays[cls])) != NULL; i--) {
        void *p = place->p;
        if (HK_UNLIKELY(!hk_magazine_give(thread, cls, p))) {
            hk_quarantine_open(q, dice);
            hk_free_long(p);
            dice = hk_quarantine_close(q);
        }
    }
    hk_quarantine_open(q, dice);
}

/* Puts a block that was taken back into quarantine; makes room first where too many have waited. A
 * signal handler that interrupted its thread at a block makes it a remote free instead: it puts
 * nothing where its thread takes or puts blocks. */
static HK_NOINLINE void retire(unsigned cls, hk_waiting_t in) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    hk_quarantine_t *q = hk_quarantine_of(thread);
    void *p;
    if (q != NULL && HK_UNLIKELY(hk_quarantine_is_busy(q))) {
        hk_heap_give_remote(cls, in.p);
        return;
    }
    if (q != NULL)
        grow(thread, q, cls, true);
    if (q != NULL && hk_quarantine_out_left(q, cls) == 0)
        make_room(thread, q, cls);
    p = q != NULL ? hk_quarantine_put_slow(q, cls, in) : in.p;
    if (p == NULL)
        return;
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    const bool given = hk_magazine_give(thread, cls, p);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    if (!given)
        hk_free_long(p);
}

static HK_COLD void free_odd(void *p, unsigned cls, hk_by_t by, size_t n) {
    hk_thread_t *past_end = enter_past_end(), *thread = hk_load_relaxed(&hk_tc)->thread;
    hk_quarantine_t *q = hk_quarantine_of(thread);
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    const bool taken = hk_block_take_back_odd(p, cls, by, n);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    if (taken && past_end != NULL)
        hk_magazine_give_or_flush(past_end, cls, p);
    else if (taken && thread != NULL)
        retire(cls, (hk_waiting_t){p, hk_shadow_of(p, cls)});
    else if (taken)
        hk_free_long(p);
    if (past_end != NULL)
        hk_thread_leave(past_end);
}

/* No block of class 1 is guarded. */
HK_INLINE bool may_be_guarded(size_t kind) { return kind - 2 < HK_CLASS_COUNT - 2; }

static void free_by_map(void *p, hk_by_t by, size_t n);

/* For blocks too long to be cleared by the short way, for the first of each class, and for what the
 * flat map does not say to be of a guarded class. */
static HK_NOINLINE void free_longer(hk_quarantine_t *q, void *p, unsigned kind, hk_by_t by,
                                    size_t n) {
    if (!may_be_guarded(kind)) {
        free_by_map(p, by, n);
        return;
    }
    const hk_waiting_t is = {p, hk_shadow_in(p, kind, true)};
    hk_bay_t *bay = hk_quarantine_bay(q, kind);
    const uint64_t dice = hk_quarantine_close(q);
    hk_quarantine_use(q, kind);
    if (!hk_block_take_back(bay, is, by, n, true)) {
        hk_quarantine_open(q, dice);
        free_odd(p, kind, by, n);
    } else if (!hk_quarantine_put(q, dice, bay, is)) {
        retire(kind, is);
    }
}

HK_INLINE void free_quickly(void *p, size_t kind, hk_by_t by, size_t n, hk_quarantine_t *q) {
    hk_bay_t *bay = hk_quarantine_bay(q, kind);
    if (HK_UNLIKELY(bay->looks > HK_CLEAR_STEPS)) {
        free_longer(q, p, (unsigned)kind, by, n);
        return;
    }
    const uint64_t dice = hk_quarantine_close(q);
    const hk_waiting_t is = {p, hk_shadow_by(p, bay->reciprocal, bay->room)};
    if (HK_UNLIKELY(!hk_block_take_back(bay, is, by, n, false))) {
        hk_quarantine_open(q, dice);
        free_odd(p, hk_quarantine_class(q, bay), by, n);
    } else if (HK_UNLIKELY(!hk_quarantine_put(q, dice, bay, is))) {
        retire(hk_quarantine_class(q, bay), is);
    }
}

/* By the page map, which is there where the flat one is not. */
static HK_NOINLINE void free_by_map(void *p, hk_by_t by, size_t n) {
    const unsigned kind = hk_map_kind(p);
    hk_quarantine_t *q = own_quarantine();
    if (may_be_guarded(kind) && q != NULL)
        free_quickly(p, kind, by, n, q);
    else if (hk_kind_is_class(kind))
        free_odd(p, kind, by, n);
    else
        free_other(p, kind, by, n);
}

/* The block is written to at once: it is fetched while its shadow is. */
HK_INLINE void release(void *p, hk_by_t by, size_t n, hk_quarantine_t *q) {
    __builtin_prefetch(p, 1);
    const size_t kind =
        hk_load_relaxed(&hk_flat.bytes[hk_masked((uintptr_t)p >> HK_SLICE_SHIFT, &hk_flat.mask)]);
    free_quickly(p, kind, by, n, q);
}

void hk_guarded_free_alone(void *p, hk_quarantine_t *q) {
    release(p, HK_BY_MALLOC, HK_ANY_SIZE, q);
}

void hk_guarded_delete_alone(void *p, hk_by_t by, size_t n, hk_quarantine_t *q) {
    release(p, by, n, q);
}

void hk_guarded_delete(void *p, hk_by_t by, size_t n) {
    hk_quarantine_t *q = own_quarantine();
    if (HK_LIKELY(q != NULL))
        hk_guarded_delete_alone(p, by, n, q);
    else
        free_by_map(p, by, n);
}

/* ---- realloc and the like ---- */

size_t hk_guarded_usable(const void *p) {
    const unsigned cls = hk_kind_within(&hk_flat.mask, hk_flat.bytes, p);
    const size_t bytes = HK_LIKELY(may_be_guarded(cls)) ? hk_block_asked(p, cls) : HK_NO_SIZE;
    return HK_LIKELY(bytes != HK_NO_SIZE) ? bytes : hk_usable_slow(p);
}

/* Resizes a block where it is; false: it must move. With `half` only if at least half of it is used
 * then; and it never gets less than its shadow can tell. */
static bool resized(void *p, unsigned kind, size_t n, bool half) {
    const bool fenced = kind == HK_KIND_FENCED;
    const size_t room = fenced ? SIZE_MAX : hk_classes[kind].size;
    const size_t least = fenced ? 0 : hk_max(room / 2 + 1, hk_minus(room, HK_BLOCK_MOST_SLACK));
    if (n > room || with_tail(n) > room || (half && n < least))
        return false;
    hk_quarantine_t *q = hk_quarantine_of(hk_load_relaxed(&hk_tc)->thread);
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    const bool done = fenced ? hk_fence_resize(p, n, half) : hk_block_resize(p, kind, n);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    return done;
}

/* The shadow of a block that is out, as nearly all are, is looked up once. */
void *hk_guarded_realloc(void *p, size_t n) {
    hk_thread_served();
    const unsigned cls = hk_kind_within(&hk_flat.mask, hk_flat.bytes, p);
    const size_t asked = HK_LIKELY(may_be_guarded(cls)) ? hk_block_asked(p, cls) : HK_NO_SIZE;
    const bool is_out = HK_LIKELY(asked != HK_NO_SIZE);
    const unsigned kind = is_out ? cls : hk_map_kind(p);
    const uint64_t faults = hk_counted_ever(faults);
    const bool known = kind == HK_KIND_FENCED || hk_kind_is_class(kind);
    const size_t before = is_out ? asked : hk_usable(p);
    if (before == 0 && hk_counted_ever(faults) != faults) { /* p is no block, which was reported */
        errno = EINVAL;
        return NULL;
    }
    if (known && resized(p, kind, n, true))
        return p;
    void *q = NULL;
    const bool fences = hk_guarded() && hk_guard->fences && !hk_sampling();
    if (n <= before && (q = hk_take_smaller(n)) == NULL)
        return !known || resized(p, kind, n, false) ? p : hk_refused();
    if (q == NULL && n >= HK_MID_MAX && n <= HK_MOST_BYTES && fences)
        q = hk_fence_alloc(n, 8, true, HK_BY_MALLOC); /* what has grown once will grow again */
    if (q == NULL)
        q = hk_malloc_unwatched(n, 8, HK_BY_MALLOC); /* it may be a sample */
    if (q == NULL)
        return NULL;
    if (kind == HK_KIND_FENCED)
        hk_copy_written(q, p, hk_min(before, n));
    else
        memcpy(q, p, hk_min(before, n));
    hk_free_unwatched(p, HK_BY_MALLOC, HK_ANY_SIZE);
    return q;
}
