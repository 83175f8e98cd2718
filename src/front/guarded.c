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
#include "guard/tail.h"

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
    if (!hk_guarded() || rest->quarantine != NULL)
        return;
    rest->quarantine = hk_meta_alloc(sizeof *rest->quarantine);
    if (rest->quarantine != NULL)
        rest->quarantine->stream = hk_guard_stream();
}

static hk_quarantine_t *quarantine_of(hk_thread_t *thread) {
    hk_thread_rest_t *rest = thread != NULL ? hk_load_relaxed(&thread->rest) : NULL;
    return rest != NULL ? rest->quarantine : NULL;
}

void hk_guarded_flush(hk_thread_t *thread) {
    hk_quarantine_t *quarantine = quarantine_of(thread);
    void *p;
    for (unsigned cls = 1; quarantine != NULL && cls < HK_CLASS_COUNT; cls++)
        while ((p = hk_quarantine_take(quarantine, cls)) != NULL)
            hk_heap_give(&thread->heap, cls, &p, 1);
}

void hk_guarded_forked(hk_thread_t *thread) {
    hk_quarantine_t *quarantine = quarantine_of(thread);
    if (quarantine != NULL)
        hk_store_relaxed(&quarantine->busy, false);
}

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

static void *of_class(unsigned cls, size_t n, size_t bytes, size_t align, hk_by_t by) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    void *p = HK_LIKELY(thread != NULL) ? hk_magazine_take(thread, cls) : NULL;
    if (HK_UNLIKELY(p == NULL)) {
        p = hk_take_block(cls, bytes, align);
        if (p == NULL || hk_map_kind(p) != cls) /* none, or the emergency heap's */
            return p;
    }
    return hk_block_hand_out(p, cls, n, by);
}

void *hk_guarded_malloc(size_t n, size_t align, hk_by_t by) {
    size_t bytes = n + hk_guard->tail;
    if (bytes <= 8)
        bytes += 8u * hk_guard->tail; /* a block with a tail has room for one of its windows */
    if (HK_UNLIKELY(n > HK_MOST_BYTES || align > HK_MOST_BYTES)) {
        errno = ENOMEM;
        return NULL;
    }
    if (align > 8)
        bytes = hk_size_for_alignment(bytes, align);
    if (HK_UNLIKELY(hk_sampling())) {
        void *p = hk_sampled_malloc(hk_load_relaxed(&hk_tc)->thread, n, align, by);
        if (p != NULL)
            return p;
    }
    if (HK_LIKELY(n != 0 && bytes <= HK_MID_MAX))
        return of_class(hk_class_of(bytes), n, bytes, align, by);
    void *p = hk_guard->fences ? hk_fence_alloc(n, align, by) : NULL;
    if (p != NULL)
        return p;
    return bytes <= HK_MID_MAX ? of_class(hk_class_of(bytes), n, bytes, align, by)
                               : hk_take_block(0, n, align);
}

/* ---- free ---- */

static void free_other(void *p, unsigned kind, hk_by_t by, size_t n) {
    if (kind == HK_KIND_FENCED) {
        hk_fence_free(p, by, n);
        return;
    }
    if (kind == HK_KIND_FREE || kind == HK_KIND_INTERIOR) {
        hk_fault(kind == HK_KIND_FREE ? HK_DOUBLE_FREE : HK_INVALID_FREE, p, HK_NO_SIZE,
                 HK_NOWHERE);
        return;
    }
    hk_free_long(p);
}

/* The calling thread's record, made if it has none: who frees before it ever allocates counts as a
 * second thread too (hk_block_take_back). NULL: it can have none. */
static hk_thread_t *thread_served(void) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL) && (thread = hk_thread_enter()) != NULL) {
        hk_thread_leave(thread);
        thread = hk_load_relaxed(&hk_tc)->thread;
    }
    return thread;
}

void hk_guarded_free(void *p, hk_by_t by, size_t n) {
    if (p == NULL)
        return;
    hk_thread_t *thread = thread_served();
    const unsigned cls = hk_map_kind(p);
    if (HK_UNLIKELY(cls - 1 >= HK_CLASS_COUNT - 1)) {
        free_other(p, cls, by, n);
        return;
    }
    if (!hk_block_take_back(p, cls, by, n))
        return;
    hk_quarantine_t *quarantine = quarantine_of(thread);
    if (HK_LIKELY(quarantine != NULL))
        p = hk_quarantine_put(quarantine, cls, p);
    if (p == NULL)
        return;
    if (HK_UNLIKELY(thread == NULL || !hk_magazine_give(thread, cls, p)))
        hk_free_long(p);
}

/* ---- realloc and the like ---- */

size_t hk_guarded_bytes(const void *p, unsigned kind) {
    return kind == HK_KIND_FENCED ? hk_fence_bytes(p) : hk_block_bytes(p, kind);
}

/* A block stays where it is as long as at least half of it is used. */
static bool resized(void *p, unsigned kind, size_t before, size_t n) {
    if (kind == HK_KIND_FENCED)
        return n >= before / 2 && hk_fence_resize(p, n);
    const size_t room = hk_classes[kind].size;
    const bool fits = n < room && n + hk_guard->tail <= room;
    return fits && n >= room / 2 && room >= HK_TAIL_WINDOW && hk_block_resize(p, kind, n);
}

void *hk_guarded_realloc(void *p, size_t n) {
    const unsigned kind = hk_map_kind(p);
    const size_t before = hk_usable(p);
    const bool known = kind == HK_KIND_FENCED || kind - 1 < HK_CLASS_COUNT - 1;
    if (known && resized(p, kind, before, n))
        return p;
    void *q = hk_malloc_unwatched(n, 8, HK_BY_MALLOC);
    if (q == NULL)
        return NULL;
    memcpy(q, p, hk_min(before, n));
    hk_free_unwatched(p, HK_BY_MALLOC, HK_ANY_SIZE);
    return q;
}
