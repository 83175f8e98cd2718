#include "front/guarded.h"

#include <errno.h>
#include <string.h>

#include "backend/large.h"
#include "backend/meta.h"
#include "base/report.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/magazine.h"
#include "guard/block.h"
#include "guard/fence.h"

/* ---- the start, and the thread's part ---- */

void hk_guarded_start(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (!hk_guard_start())
        hk_config_warn("HAKMEM_GUARD", "1", "the system refuses memory", "nothing is checked");
    if (thread != NULL)
        hk_thread_leave(thread);
}

void hk_guarded_set_up_locked(hk_thread_t *thread) {
    hk_thread_rest_t *rest = hk_load_relaxed(&thread->rest);
    if (rest == NULL)
        return;
    if (hk_sampling())
        rest->until_sample = hk_sample_gap();
    if (!hk_guarded() || thread->quarantine != NULL)
        return;
    hk_quarantine_t *quarantine = hk_meta_alloc(sizeof *quarantine);
    if (quarantine == NULL)
        return;
    quarantine->stream = hk_guard_stream();
    thread->quarantine = quarantine;
}

void hk_guarded_refilled(hk_thread_t *thread, unsigned cls, void **blocks, unsigned n) {
    hk_block_touch(blocks, n, cls);
    if (thread->quarantine != NULL)
        hk_guard_shuffle(&thread->quarantine->stream, blocks, n);
}

/* The thread moves a block to or from its magazines or quarantine. What a signal handler frees meanwhile that
 * it has just allocated goes back to where it was, on top of its magazine, so that the thread finds all as it
 * was. Returns what to tell end(). */
HK_INLINE bool begin(hk_thread_t *thread) {
    const bool before = hk_load_relaxed(&thread->guarding);
    hk_store_relaxed(&thread->guarding, true);
    atomic_signal_fence(memory_order_seq_cst);
    return before;
}

HK_INLINE void end(hk_thread_t *thread, bool before) {
    atomic_signal_fence(memory_order_seq_cst);
    hk_store_relaxed(&thread->guarding, before);
}

void hk_guarded_flush(hk_thread_t *thread) {
    void *p;
    if (thread->quarantine == NULL)
        return;
    const bool before = begin(thread);
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        while ((p = hk_quarantine_take(thread->quarantine, cls)) != NULL) {
            hk_block_look(p, cls);
            hk_heap_give(&thread->heap, cls, &p, 1);
        }
    end(thread, before);
}

void hk_guarded_finish(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread != NULL ? hk_thread_enter() : NULL;
    if (thread == NULL)
        return;
    hk_guarded_flush(thread);
    hk_thread_leave(thread);
}

void hk_guarded_forked(hk_thread_t *thread) { hk_store_relaxed(&thread->guarding, false); }

/* ---- samples ---- */

void hk_guarded_apply(void) {
    const unsigned every = (unsigned)hk_option(guard_sample);
    if (!hk_sample_start(every))
        hk_config_warn("HAKMEM_GUARD_SAMPLE", "", "the system refuses memory", "none is taken");
}

/* Reading the stack may allocate: then it is not its turn. */
static HK_COLD void *sample(hk_thread_rest_t *rest, size_t n, size_t align, hk_by_t by) {
    rest->until_sample = UINT32_MAX;
    void *p = hk_sample_alloc(n, align, by);
    rest->until_sample = hk_sample_gap();
    return p;
}

void *hk_sampled_malloc(hk_thread_t *thread, size_t n, size_t align, hk_by_t by) {
    hk_thread_rest_t *rest = thread != NULL ? hk_load_relaxed(&thread->rest) : NULL;
    if (HK_UNLIKELY(rest == NULL))
        return NULL;
    if (HK_LIKELY(--rest->until_sample != 0))
        return NULL;
    return sample(rest, n, align, by);
}

/* ---- malloc ---- */

/* A block has room for its tail, and for a window to look at that (guard/tail.h). */
static size_t with_tail(size_t n) { return hk_max(n + hk_guard->tail, HK_TAIL_WINDOW); }

/* Where the magazine is empty. */
static HK_NOINLINE void *of_class(unsigned cls, size_t n, size_t bytes, size_t align, hk_by_t by) {
    void *p = hk_take_block(cls, bytes, align);
    if (p == NULL || hk_map_kind(p) != cls) /* none, or the emergency heap's */
        return p;
    return hk_block_hand_out(p, cls, n, by);
}

void *hk_guarded_aligned(size_t n, size_t align, hk_by_t by) {
    if (n > HK_MOST_BYTES || align > HK_MOST_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    void *p = hk_sampling() ? hk_sampled_malloc(thread, n, align, by) : NULL;
    if (p != NULL)
        return p;
    const size_t bytes = align > 8 ? hk_size_for_alignment(with_tail(n), align) : with_tail(n);
    if ((n == 0 || bytes > HK_MID_MAX) && hk_guard->fences)
        p = hk_fence_alloc(n, align, false, by);
    if (p != NULL)
        return p;
    return bytes <= HK_MID_MAX ? of_class(hk_class_of(bytes), n, bytes, align, by)
                               : hk_take_block(0, n, align);
}

void *hk_guarded_malloc(size_t n, hk_by_t by) {
    if (HK_UNLIKELY(n - 1 >= HK_MID_MAX - 1 || hk_sampling()))
        return hk_guarded_aligned(n, 8, by);
    /* the classes are multiples of 16 bytes, but for one that is too short for a window */
    const unsigned cls = hk_class_of(hk_align_up(n + hk_guard->tail, 16));
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    void *p = NULL;
    if (HK_LIKELY(thread != NULL)) {
        const bool before = begin(thread);
        p = hk_magazine_take(thread, cls);
        end(thread, before);
    }
    return HK_LIKELY(p != NULL) ? hk_block_hand_out(p, cls, n, by)
                                : of_class(cls, n, with_tail(n), 8, by);
}

/* ---- free ---- */

static HK_NOINLINE void free_other(void *p, unsigned kind, hk_by_t by, size_t n) {
    if (kind == HK_KIND_FENCED) {
        hk_fence_free(p, by, n);
        return;
    }
    if (kind == HK_KIND_FREE || kind == HK_KIND_INTERIOR) {
        hk_guard_fault(kind == HK_KIND_FREE ? HK_DOUBLE_FREE : HK_INVALID_FREE, p, HK_NO_SIZE,
                       HK_NOWHERE);
        return;
    }
    hk_free_long(p);
}

/* The calling thread's record, made if it has none: who frees before it ever allocates counts as a
 * second thread too (hk_block_set_free). NULL: it can have none. */
static hk_thread_t *thread_served(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL) && (thread = hk_thread_enter()) != NULL) {
        hk_thread_leave(thread);
        thread = hk_load_relaxed(&hk_tc)->thread;
    }
    return thread;
}

static HK_NOINLINE void retire_slow(hk_thread_t *thread, unsigned cls, void *p) {
    const bool before = begin(thread);
    if (thread->quarantine != NULL && !before)
        p = hk_quarantine_put_slow(thread->quarantine, cls, p);
    const bool given = p == NULL || hk_magazine_give(thread, cls, p);
    end(thread, before);
    if (!given)
        hk_free_long(p);
}

/* Puts a block that was taken back into quarantine, or where the one goes that comes out for it. */
HK_INLINE void retire(hk_thread_t *thread, unsigned cls, void *p) {
    hk_quarantine_t *q = thread->quarantine;
    if (HK_UNLIKELY(q == NULL || begin(thread))) {
        retire_slow(thread, cls, p);
        return;
    }
    void *out = hk_quarantine_exchange(q, cls, p);
    const bool given = out != NULL && hk_magazine_give(thread, cls, out);
    end(thread, false);
    if (HK_UNLIKELY(out == NULL))
        retire_slow(thread, cls, p);
    else if (HK_UNLIKELY(!given))
        hk_free_long(out);
}

static HK_COLD void free_odd(void *p, unsigned cls, hk_by_t by, size_t n) {
    hk_thread_t *thread = thread_served();
    if (!hk_block_take_back_odd(p, cls, by, n))
        return;
    if (thread != NULL)
        retire(thread, cls, p);
    else
        hk_free_long(p);
}

static HK_COLD void free_overrun(hk_thread_t *thread, unsigned cls, void *p, size_t bytes) {
    hk_block_take_back_overrun(p, cls, bytes);
    retire(thread, cls, p);
}

static HK_COLD void free_raced(void *p) {
    hk_guard_fault(HK_DOUBLE_FREE, p, HK_NO_SIZE, HK_NOWHERE);
}

/* Whatever the flat map says, where there is one. */
static HK_NOINLINE void free_by_map(void *p, hk_by_t by, size_t n) {
    const unsigned kind = hk_map_kind(p);
    if (kind - 1 < HK_CLASS_COUNT - 1)
        free_odd(p, kind, by, n);
    else
        free_other(p, kind, by, n);
}

HK_INLINE void release(void *p, hk_by_t by, size_t n) {
    const unsigned cls =
        hk_load_relaxed(&hk_flat.bytes[hk_masked((uintptr_t)p >> HK_SLICE_SHIFT, &hk_flat.mask)]);
    if (HK_UNLIKELY(cls - 1 >= HK_CLASS_COUNT - 1)) {
        free_by_map(p, by, n);
        return;
    }
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    const void *owner = hk_shadow_owner(p);
    size_t bytes = 0;
    const hk_block_end_t end =
        HK_LIKELY(thread != NULL) ? hk_block_take_back(p, cls, owner, by, n, &bytes) : HK_BLOCK_ODD;
    if (HK_LIKELY(end == HK_BLOCK_TAKEN))
        retire(thread, cls, p);
    else if (end == HK_BLOCK_ODD)
        free_odd(p, cls, by, n);
    else if (end == HK_BLOCK_OVERRUN)
        free_overrun(thread, cls, p, bytes);
    else
        free_raced(p);
}

void hk_guarded_free(void *p) { release(p, HK_BY_MALLOC, HK_ANY_SIZE); }
void hk_guarded_delete(void *p, hk_by_t by, size_t n) { release(p, by, n); }

/* ---- realloc and the like ---- */

size_t hk_guarded_bytes(const void *p, unsigned kind) {
    return kind == HK_KIND_FENCED ? hk_fence_bytes(p) : hk_block_bytes(p, kind);
}

/* A block stays where it is as long as at least half of it is used. */
static bool resized(void *p, unsigned kind, size_t n) {
    if (kind == HK_KIND_FENCED)
        return hk_fence_resize(p, n);
    const size_t room = hk_classes[kind].size;
    return n <= room && with_tail(n) <= room && n >= room / 2 && hk_block_resize(p, kind, n);
}

/* A large block that has grown once will grow again. */
static void *grown(size_t n) {
    const bool large = n >= HK_MID_MAX && n <= HK_MOST_BYTES;
    void *p = large && hk_guard->fences && !hk_sampling() ? hk_fence_alloc(n, 8, true, HK_BY_MALLOC)
                                                          : NULL;
    return p != NULL ? p : hk_malloc_unwatched(n, 8, HK_BY_MALLOC);
}

void *hk_guarded_realloc(void *p, size_t n) {
    const unsigned kind = hk_map_kind(p);
    const size_t before = hk_usable(p);
    const bool known = kind == HK_KIND_FENCED || kind - 1 < HK_CLASS_COUNT - 1;
    if (known && resized(p, kind, n))
        return p;
    void *q = n > before ? grown(n) : hk_malloc_unwatched(n, 8, HK_BY_MALLOC);
    if (q == NULL)
        return NULL;
    memcpy(q, p, hk_min(before, n));
    hk_free_unwatched(p, HK_BY_MALLOC, HK_ANY_SIZE);
    return q;
}
