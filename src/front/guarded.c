#include "front/guarded.h"

#include <errno.h>
#include <string.h>

#include "backend/large.h"
#include "backend/meta.h"
#include "base/counters.h"
#include "base/report.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/emergency.h"
#include "front/magazine.h"
#include "front/thread_own.h"
#include "front/watched.h"
#include "guard/block.h"
#include "guard/fence.h"
#include "guard/foreign.h"
#include "policy/look.h"

/* ---- the start, and the thread's part ---- */

static hk_quarantine_t *quarantine_of(hk_thread_t *thread) {
    return thread != NULL ? hk_load_acquire(&thread->quarantine) : NULL;
}

/* The calling thread's, by the shortest way; NULL: there may be one all the same. */
HK_INLINE hk_quarantine_t *quarantine_at_hand(void) {
    return hk_load_acquire(&hk_load_relaxed(&hk_tc)->quarantine);
}

void hk_guarded_start(void) {
    const bool has_record = hk_load_relaxed(&hk_tc)->thread != NULL;
    hk_thread_t *thread = has_record ? hk_thread_enter_patiently() : NULL;
    if ((has_record && thread == NULL) || !hk_guard_start())
        hk_config_warn("HAKMEM_GUARD", "1", "there is no memory for it, or a fork is under way",
                       "nothing is checked");
    if (thread != NULL)
        hk_thread_leave(thread);
    hk_guarded_look_about();
}

atomic_bool hk_guarded_alone;

static bool is_alone(void) {
    return hk_guarded() && !hk_sampling() && hk_watched() == HK_WATCHED_NOT;
}

/* Once more where it has changed meanwhile, as in hk_watched_apply(). */
void hk_guarded_look_about(void) {
    do
        hk_store_seq(&hk_guarded_alone, is_alone());
    while (hk_load_seq(&hk_guarded_alone) != is_alone());
}

void hk_guarded_set_up_locked(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (rest == NULL)
        return;
    if (hk_sampling())
        hk_store_relaxed(&rest->until_sample, hk_sample_gap());
    if (!hk_guarded() || quarantine_of(thread) != NULL)
        return;
    hk_quarantine_t *quarantine = hk_meta_alloc(sizeof *quarantine);
    if (quarantine == NULL)
        return;
    hk_quarantine_begin(quarantine);
    hk_store_release(&thread->quarantine, quarantine);
    hk_store_release(&rest->trap.quarantine, quarantine);
}

/* A signal handler has interrupted its thread while that was at a block. */
static bool is_interrupted(const hk_quarantine_t *q) { return hk_load_relaxed(&q->dice) == 0; }

void hk_guarded_refilled(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    hk_quarantine_t *q = quarantine_of(thread);
    uint64_t other = q == NULL ? hk_guard_stream() : 0; /* a new thread has none yet */
    hk_block_touch(blocks, n, cls);
    hk_guard_shuffle(q != NULL ? &q->stream : &other, blocks, n);
}

/* No other thread is at the heap, or was when the process was made by a fork: what that was about lies half done. */
static bool torn; /* written in a forked child before it has other threads */
static bool was_alone(void) { return hk_load_relaxed(&hk_purger_on_foot) && !torn; }

static void let_others_in(void) {
    hk_unlock(&hk_look_lock);
    hk_unlock(&hk_registry);
    hk_unlock(&hk_shared_lock);
}

/* Whether nobody else is at the heap. Nobody comes until they are let in: a thread that has no record yet waits for the
 * registry, one past its end for the shared record, which a fork has while it waits for who is inside. Not waited for for
 * ever: in a child that was made past the fork handlers a thread that is not there may have the registry. */
static bool keep_others_out(void) {
    enum { MOST_TRIES = 1000 };
    if (!was_alone() || !hk_lock_try(&hk_shared_lock))
        return false;
    const bool has_registry = hk_lock_patiently(&hk_registry, MOST_TRIES);
    /* the purger has no record, and gives back what is looked at */
    if (has_registry && was_alone() && hk_lock_patiently(&hk_look_lock, MOST_TRIES))
        return true;
    if (has_registry)
        hk_unlock(&hk_registry);
    hk_unlock(&hk_shared_lock);
    return false;
}

/* At the process's end what the magazines have is looked at as well, and where nobody else is there what lies beside and
 * what is still in use, as far as that takes no more than milliseconds. */
static void flush(hk_thread_t *thread, bool ends, bool alone) {
    hk_quarantine_t *q = quarantine_of(thread);
    void *p;
    if (q == NULL || is_interrupted(q)) /* by a handler that is short of memory, or trims */
        return;
    const uint64_t dice = hk_quarantine_close(q);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        while ((p = hk_quarantine_drain(q, cls)) != NULL ||
               (ends && (p = hk_magazine_take(thread, cls)) != NULL)) {
            hk_block_look(p, cls);
            if (alone)
                hk_block_look_beside(p, cls);
            hk_heap_give(&thread->heap, cls, &p, 1);
        }
    hk_quarantine_open(q, dice);
}

void hk_guarded_flush(hk_thread_t *thread) { flush(thread, false, false); }

/* A handler may have ended the thread at a block: what is in quarantine is whole all the same. */
size_t hk_guarded_end(hk_thread_t *thread) {
    hk_quarantine_t *q = quarantine_of(thread);
    void *blocks[HK_QUARANTINE_MOST + HK_QUARANTINE_OUT];
    size_t bytes = 0;
    if (q == NULL)
        return 0;
    const uint64_t dice = hk_quarantine_close(q);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
        const unsigned n = hk_quarantine_list(q, cls, blocks);
        bytes += n * (size_t)hk_classes[cls].size;
        for (unsigned i = 0; i < n; i++)
            hk_block_look(blocks[i], cls);
    }
    hk_quarantine_open(q, dice != 0 ? dice : 1);
    return bytes;
}

void hk_guarded_finish(void) {
    enum { BLOCKS_IN_A_MS = 1 << 16 };
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (thread == NULL)
        return;
    const bool interrupted = quarantine_of(thread) != NULL && is_interrupted(quarantine_of(thread));
    const bool alone = !interrupted && keep_others_out();
    if (!interrupted)
        flush(thread, true, alone);
    if (alone) {
        hk_block_look_at_all(BLOCKS_IN_A_MS);
        hk_fence_finish();
        let_others_in();
    }
    hk_thread_leave(thread);
}

void hk_guarded_others_left(void) {
    if (hk_guarded())
        hk_guard_forked();
    torn |= !hk_load_relaxed(&hk_purger_on_foot) || hk_purger_has_company();
}

void hk_guarded_forked(hk_thread_t *thread, bool own) {
    hk_quarantine_t *q = quarantine_of(thread);
    if (q == NULL)
        return;
    q->stream = hk_guard_stream();
    if (!own || !is_interrupted(q))
        hk_quarantine_open(q, 1); /* the next newcomer takes a number of that */
}

/* ---- samples ---- */

static bool can_sample(void) {
    /* entered, or a fork might find that memory's lock taken */
    hk_thread_t *thread = hk_thread_enter_patiently();
    const bool can = thread != NULL && hk_sample_prepare();
    if (thread != NULL)
        hk_thread_leave(thread);
    return can;
}

void hk_guarded_apply(void) {
    static atomic_uint changes; /* atomic: who comes later sees what others stored */
    unsigned every;
    do { /* once more where it has changed meanwhile: two threads may do this at the same time */
        every = (unsigned)hk_option(guard_sample);
        if (every != 0 && !can_sample()) {
            hk_config_warn("HAKMEM_GUARD_SAMPLE", "",
                           "there is no memory for it, or a fork is under way", "nothing changes");
            break;
        }
        hk_sample_start(every);
        hk_add_seq(&changes, 1u);
    } while (every != hk_option(guard_sample));
    hk_guarded_look_about();
}

/* Reading the stack may allocate: then it is not its turn. */
static HK_COLD void *sample(hk_thread_rest_t *rest, size_t n, size_t align, hk_by_t by) {
    hk_store_relaxed(&rest->until_sample, UINT32_MAX);
    void *p = hk_sample_alloc(n, align, by);
    hk_store_relaxed(&rest->until_sample, hk_sample_gap());
    return p;
}

void *hk_sampled_malloc(hk_thread_t *thread, size_t n, size_t align, hk_by_t by) {
    hk_thread_rest_t *rest = thread != NULL ? hk_load_relaxed(&thread->rest) : NULL;
    if (HK_UNLIKELY(rest == NULL))
        return NULL;
    const unsigned left = hk_load_relaxed(&rest->until_sample);
    hk_store_relaxed(&rest->until_sample, left != 0 ? left - 1 : hk_sample_gap());
    if (HK_LIKELY(left != 1))
        return NULL;
    return sample(rest, n, align, by);
}

/* A thread's first allocation finds nothing to count down. */
void *hk_guarded_sample(void **left, size_t n, size_t align, hk_by_t by) {
    const bool first = *left == NULL;
    *left = HK_TAKING_SAMPLE;
    void *p = !first && hk_sample_is_chosen(n) ? hk_sample_alloc(n, align, by) : NULL;
    *left = (void *)hk_sample_gap_bytes();
    return p;
}

/* ---- malloc ---- */

/* A block has room for its tail, and for a window to look at that (guard/tail.h). */
static size_t with_tail(size_t n) { return hk_max(n + hk_guard->tail, HK_TAIL_WINDOW); }

/* A few of the magazine's, where none has waited; taken in the magazine's order, which is memory's but for a few: who
 * comes back to the blocks in the order in which they were asked for waits for memory where that runs backwards. */
static void refill(hk_thread_t *thread, hk_quarantine_t *q, unsigned cls) {
    enum { BLOCKS = 8 };
    void *blocks[BLOCKS];
    unsigned n = 0;
    const uint64_t dice = hk_quarantine_close(q);
    while (n < BLOCKS && (blocks[n] = hk_magazine_take(thread, cls)) != NULL)
        n++;
    while (n-- > 0)
        hk_quarantine_put_out(q, cls,
                              (hk_waiting_t){blocks[n], hk_shadow_in(blocks[n], cls, true)});
    hk_quarantine_open(q, dice);
}

/* What was closed is opened. */
static HK_NOINLINE void *hand_out_any(hk_quarantine_t *q, uint64_t dice, hk_waiting_t is,
                                      unsigned cls, size_t n, hk_by_t by) {
    hk_block_hand_out_any(is, cls, n, by);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    return is.p;
}

/* Whoever is interrupted may be about to take what is on top, of what has waited or of the magazine: it is not for the handler. */
static HK_NOINLINE void *of_class(size_t bytes, size_t n, size_t align, hk_by_t by) {
    const unsigned cls = hk_class_of(bytes);
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    hk_quarantine_t *q = quarantine_of(thread);
    void *p = NULL;
    if (q != NULL && HK_UNLIKELY(is_interrupted(q))) {
        if ((p = hk_emergency_alloc(n, hk_max(align, 16))) == NULL)
            errno = ENOMEM;
        return p;
    }
    if (q != NULL && (p = hk_quarantine_take(q, cls).p) == NULL) {
        refill(thread, q, cls);
        p = hk_quarantine_take(q, cls).p;
    }
    if (p == NULL)
        p = hk_take_block(cls, bytes, align);
    if (p == NULL || hk_map_kind(p) != cls) /* none, or the emergency heap's */
        return p;
    return hand_out_any(q, q != NULL ? hk_quarantine_close(q) : 0,
                        (hk_waiting_t){p, hk_shadow_of(p, cls)}, cls, n, by);
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
        hk_thread_served(); /* fences need no record, but at the end others must know (keep_others_out) */
        p = hk_fence_alloc(n, align, false, by);
    }
    if (p != NULL)
        return p;
    return bytes <= HK_MID_MAX ? of_class(bytes, n, align, by) : hk_take_clear(n, align);
}

HK_INLINE void *unsampled(size_t n, hk_by_t by) {
    if (HK_UNLIKELY(n - 1 >= HK_MID_MAX - 1))
        return hk_guarded_aligned(n, 8, by);
    /* the classes are multiples of 16 bytes, but for one that is too short for a window; 0 where they are hidden */
    const unsigned cls = hk_load_acquire(&hk_class_of_size[(n + 15 + hk_guard->tail) / 16 * 2]);
    hk_quarantine_t *q = quarantine_at_hand();
    const uint64_t dice = HK_LIKELY(q != NULL) ? hk_quarantine_close(q) : 0;
    if (HK_LIKELY(dice != 0)) { /* else it is interrupted */
        const hk_waiting_t got = hk_quarantine_take_closed(q, cls);
        if (HK_UNLIKELY(got.p != NULL && !hk_block_hand_out(q, got, cls, n, by)))
            return hand_out_any(q, dice, got, cls, n, by);
        hk_quarantine_open(q, dice);
        if (HK_LIKELY(got.p != NULL))
            return got.p;
    }
    return of_class(with_tail(n), n, 8, by);
}

void *hk_guarded_malloc(size_t n, hk_by_t by) {
    return HK_UNLIKELY(hk_sampling()) ? hk_guarded_aligned(n, 8, by) : unsampled(n, by);
}

void *hk_guarded_malloc_alone(size_t n) { return unsampled(n, HK_BY_MALLOC); }

/* ---- free ---- */

static HK_NOINLINE void free_other(void *p, unsigned kind, hk_by_t by, size_t n) {
    if (kind == HK_KIND_FENCED) {
        hk_thread_served();
        hk_fence_free(p, by, n);
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

static void give_back(hk_thread_t *thread, hk_quarantine_t *q, unsigned cls, void *p) {
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    const bool given = hk_magazine_give(thread, cls, p);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    if (!given)
        hk_free_long(p);
}

/* Puts a block that was taken back into quarantine, having made room where those are too many that have waited. */
static HK_NOINLINE void retire(unsigned cls, hk_waiting_t in) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    hk_quarantine_t *q = quarantine_of(thread);
    void *p;
    if (q != NULL && hk_load_relaxed(&q->top[cls]) == q->end[cls] && hk_load_relaxed(&q->dice) != 0)
        for (unsigned i = hk_quarantine_out(cls) / 2;
             i > 0 && (p = hk_quarantine_take(q, cls).p) != NULL; i--)
            give_back(thread, q, cls, p);
    p = q != NULL ? hk_quarantine_put_slow(q, cls, in) : in.p;
    if (p != NULL)
        give_back(thread, q, cls, p);
}

static HK_COLD void free_odd(void *p, unsigned cls, hk_by_t by, size_t n) {
    /* who frees before it ever allocates counts as a second thread too (hk_block_set_free) */
    hk_thread_t *thread = hk_thread_served();
    hk_quarantine_t *q = quarantine_of(thread);
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    const bool taken = hk_block_take_back_odd(p, cls, by, n);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    if (!taken)
        return;
    if (thread != NULL)
        retire(cls, (hk_waiting_t){p, hk_shadow_of(p, cls)});
    else
        hk_free_long(p);
}

/* What has no way in of its own. */
static HK_NOINLINE void free_longer(hk_quarantine_t *q, hk_waiting_t is, unsigned cls, hk_by_t by,
                                    size_t n) {
    const uint64_t dice = hk_quarantine_close(q);
    if (!hk_block_take_back(q, is, cls, by, n, true)) {
        hk_quarantine_open(q, dice);
        free_odd(is.p, cls, by, n);
    } else if (!hk_quarantine_put(q, dice, cls, is)) {
        retire(cls, is);
    }
}

HK_INLINE void free_small(void *p, unsigned cls, hk_by_t by, size_t n) {
    hk_quarantine_t *q = quarantine_at_hand();
    if (HK_UNLIKELY(q == NULL)) {
        free_odd(p, cls, by, n);
        return;
    }
    const hk_waiting_t is = {p, hk_shadow_in(p, cls, true)};
    if (HK_UNLIKELY(q->looks[cls] > HK_CLEAR_STEPS)) {
        free_longer(q, is, cls, by, n);
        return;
    }
    const uint64_t dice = hk_quarantine_close(q);
    if (HK_UNLIKELY(!hk_block_take_back(q, is, cls, by, n, false))) {
        hk_quarantine_open(q, dice);
        free_odd(p, cls, by, n);
    } else if (HK_UNLIKELY(!hk_quarantine_put(q, dice, cls, is))) {
        retire(cls, is);
    }
}

/* Of class 1 no block is guarded. */
HK_INLINE bool may_be_guarded(unsigned kind) { return kind - 2 < HK_CLASS_COUNT - 2; }

/* Whatever the flat map says, where there is one. */
static HK_NOINLINE void free_by_map(void *p, hk_by_t by, size_t n) {
    const unsigned kind = hk_map_kind(p);
    if (may_be_guarded(kind))
        free_small(p, kind, by, n);
    else if (hk_kind_is_class(kind))
        free_odd(p, kind, by, n);
    else
        free_other(p, kind, by, n);
}

/* The block is written to at once, and comes while its shadow does. */
HK_INLINE void release(void *p, hk_by_t by, size_t n) {
    __builtin_prefetch(p, 1);
    const unsigned cls =
        hk_load_relaxed(&hk_flat.bytes[hk_masked((uintptr_t)p >> HK_SLICE_SHIFT, &hk_flat.mask)]);
    if (HK_LIKELY(may_be_guarded(cls)))
        free_small(p, cls, by, n);
    else
        free_by_map(p, by, n);
}

void hk_guarded_free(void *p) { release(p, HK_BY_MALLOC, HK_ANY_SIZE); }
void hk_guarded_delete(void *p, hk_by_t by, size_t n) { release(p, by, n); }

/* ---- realloc and the like ---- */

size_t hk_guarded_usable(const void *p) {
    const unsigned cls = hk_kind_within(&hk_flat.mask, hk_flat.bytes, p);
    const size_t bytes = HK_LIKELY(may_be_guarded(cls)) ? hk_block_asked(p, cls) : HK_NO_SIZE;
    return HK_LIKELY(bytes != HK_NO_SIZE) ? bytes : hk_usable_slow(p);
}

/* A block stays where it is as long as so much of it is used, half or nothing; half is no less than its shadow can tell. */
static bool resized(void *p, unsigned kind, size_t n, bool half) {
    const bool fenced = kind == HK_KIND_FENCED;
    const size_t room = fenced ? SIZE_MAX : hk_classes[kind].size;
    const size_t least = fenced ? 0 : hk_max(room / 2 + 1, hk_minus(room, HK_BLOCK_MOST_SLACK));
    if (n > room || with_tail(n) > room || (half && n < least))
        return false;
    hk_quarantine_t *q = quarantine_of(hk_load_relaxed(&hk_tc)->thread);
    const uint64_t dice = q != NULL ? hk_quarantine_close(q) : 0;
    const bool done = fenced ? hk_fence_resize(p, n, half) : hk_block_resize(p, kind, n);
    if (q != NULL)
        hk_quarantine_open(q, dice);
    return done;
}

/* Of a block that is out, as nearly all are, its shadow is looked up once. */
void *hk_guarded_realloc(void *p, size_t n) {
    hk_thread_served();
    const unsigned cls = hk_kind_within(&hk_flat.mask, hk_flat.bytes, p);
    const size_t asked = HK_LIKELY(may_be_guarded(cls)) ? hk_block_asked(p, cls) : HK_NO_SIZE;
    const bool is_out = HK_LIKELY(asked != HK_NO_SIZE);
    const unsigned kind = is_out ? cls : hk_map_kind(p);
    const uint64_t faults = hk_counted_ever(faults);
    const bool known = kind == HK_KIND_FENCED || hk_kind_is_class(kind);
    const size_t before = is_out ? asked : hk_usable(p);
    if (before == 0 && hk_counted_ever(faults) != faults) { /* it is none, which was reported */
        errno = EINVAL;
        return NULL;
    }
    if (known && resized(p, kind, n, true))
        return p;
    void *q = NULL;
    if (n > before && n >= HK_MID_MAX && n <= HK_MOST_BYTES && hk_guard->fences && !hk_sampling())
        q = hk_fence_alloc(n, 8, true, HK_BY_MALLOC); /* what has grown once will grow again */
    if (q == NULL && n > before)
        q = hk_malloc_unwatched(n, 8, HK_BY_MALLOC); /* a sample need not be among guarded ones */
    if (n <= before) {
        const int saved = errno;
        q = hk_take_smaller(n);
        if (q == NULL && known && !resized(p, kind, n, false))
            return hk_refused();
        if (q == NULL) {
            errno = saved;
            return p;
        }
    }
    if (q == NULL)
        return NULL;
    memcpy(q, p, hk_min(before, n));
    hk_free_unwatched(p, HK_BY_MALLOC, HK_ANY_SIZE);
    return q;
}
