/* Sizes: how large a block is, and how it gets another size. */
#include <dlfcn.h>
#include <errno.h>

#include "backend/large.h"
#include "backend/purge.h"
#include "backend/slab.h"
#include "base/report.h"
#include "front/boundary.h"
#include "front/emergency.h"
#include "front/guarded.h"
#include "front/thread.h"
#include "front/watched.h"
#include "guard/block.h"
#include "guard/fence.h"
#include "guard/foreign.h"
#include "policy/purger.h"
#include "stats/sections.h"

/* ---- how large ---- */

/* dlsym() may allocate, which works by now. Under a guard its result is not kept: an attacker who
 * can write anywhere could have any function called by it. */
static HK_COLD size_t foreign_usable(const void *p) {
    typedef size_t usable_fn(void *);
    static _Atomic(usable_fn *) next;
    const bool keeps = hk_guard->stirs == 0; /* on a read-only page; 0 without a guard */
    usable_fn *fn = keeps ? hk_load_relaxed(&next) : NULL;
    if (fn == NULL) {
        *(void **)&fn = dlsym(RTLD_NEXT, "malloc_usable_size");
        if (fn == NULL)
            hk_fatal(HK_INVALID_POINTER, p);
        if (keeps)
            hk_store_relaxed(&next, fn);
    }
    return fn((void *)(uintptr_t)p);
}

static size_t usable(const void *p, unsigned kind) {
    if (HK_LIKELY(hk_kind_is_class(kind)))
        return HK_UNLIKELY(hk_guarded()) ? hk_block_bytes(p, kind) : hk_classes[kind].size;
    if (hk_large_is(kind))
        return hk_large_usable(p, kind);
    switch (kind) {
    case HK_KIND_EMERGENCY:
        return hk_emergency_usable(p);
    case HK_KIND_FENCED:
        return hk_fence_bytes(p);
    case HK_KIND_FOREIGN:
        return hk_guarded() && hk_guard_disowns(p, HK_INVALID_POINTER) ? 0 : foreign_usable(p);
    default:
        if (!hk_guarded())
            hk_fatal(HK_INVALID_POINTER, p);
        hk_guard_fault(HK_INVALID_POINTER, p, HK_NO_SIZE, HK_NOWHERE);
        return 0;
    }
}

size_t hk_usable_slow(const void *p) { return p == NULL ? 0 : usable(p, hk_map_kind(p)); }

/* A hit too, or nearly: some programs ask with each allocation and free. */
size_t hk_usable(const void *p) {
    const hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    const unsigned kind = hk_kind_within(&tc->mask, tc->map, p);
    if (HK_LIKELY(hk_kind_is_class(kind)))
        return hk_classes[kind].size;
    return hk_guarded() ? hk_guarded_usable(p) : hk_usable_slow(p);
}

/* Not of large blocks: their slices only say that they are inside one. */
hk_around_t hk_around(const void *p) {
    const unsigned kind = hk_map_kind(p);
    const hk_slab_t *slab = hk_kind_is_class(kind) ? hk_slab_of(p) : NULL;
    if (kind == HK_KIND_FENCED)
        return hk_fence_around(p);
    if (HK_UNLIKELY(slab == NULL)) /* or it lay beside the caller's block, and has gone since */
        return (hk_around_t){NULL, HK_NO_SIZE};
    const hk_class_t *c = &hk_classes[kind];
    const size_t index = (size_t)((const char *)p - slab->base) / c->size;
    const char *start =
        slab->base + hk_min(index, c->blocks - 1u) * c->size; /* p may lie behind the last block */
    return (hk_around_t){start, hk_guarded() ? hk_block_known(start, kind) : c->size};
}

/* ---- another size ---- */

/* The C library's own, for pointers that are its own. Absent in a static or foreign libc. */
void *__libc_realloc(void *p, size_t n) __attribute__((weak));

static void *resize_large(void *p, unsigned kind, size_t n) {
    hk_thread_t *thread = hk_thread_enter();
    if (thread == NULL)
        return NULL;
    size_t before = hk_large_usable(p, kind);
    void *q = HK_TIMED_VALUE(large_resize, hk_large_resize(&thread->heap, p, kind, n));
    const void *is = q != NULL ? q : p;
    hk_purger_note(before - hk_min(before, hk_large_usable(is, hk_map_kind(is))));
    hk_purger_go_on();
    hk_thread_leave(thread);
    return q;
}

HK_COLD void *hk_take_smaller(size_t n) {
    hk_thread_t *thread = hk_thread_served();
    const unsigned char before = thread != NULL ? thread->refusals : 0;
    const int saved = errno;
    if (thread != NULL)
        thread->refusals = HK_REFUSALS_NONE;
    atomic_signal_fence(memory_order_seq_cst);
    void *p = hk_malloc_unwatched(n, 8, HK_BY_MALLOC);
    atomic_signal_fence(memory_order_seq_cst);
    if (thread != NULL)
        thread->refusals = before;
    if (p == NULL)
        errno = saved;
    return p;
}

/* A block stays where it is as long as at least half of it is used, or if nothing smaller can be
 * had. A large one grows in place or by moving pages where it can, and a huge one gives back what
 * is a unit or more. */
void *hk_realloc_unwatched(void *p, size_t n) {
    const unsigned kind = hk_map_kind(p);
    if (kind == HK_KIND_FOREIGN && hk_guarded() && hk_guard_disowns(p, HK_INVALID_POINTER)) {
        errno = EINVAL;
        return NULL;
    }
    if (kind == HK_KIND_FOREIGN && __libc_realloc != NULL)
        return __libc_realloc(p, n);
    if (HK_UNLIKELY((hk_guarded() && !hk_large_is(kind)) || kind == HK_KIND_FENCED))
        return hk_guarded_realloc(p, n);
    size_t old = usable(p, kind);
    const bool fits = n <= old && n >= old / 2;
    if (fits && kind != HK_KIND_HUGE)
        return p;
    if (hk_large_is(kind) && n > HK_MID_MAX) {
        void *q = resize_large(p, kind, n);
        if (q != NULL && HK_UNLIKELY(hk_guarded()) && hk_usable(q) > old)
            hk_purge_clear((char *)q + old, hk_usable(q) - old); /* as if it were allocated now */
        if (q != NULL || fits)
            return q != NULL ? q : p;
    }
    void *q = hk_hit_pop_class(hk_load_relaxed(&hk_tc), n <= HK_MID_MAX ? hk_class_of(n) : 0);
    if (q == NULL)
        q = n < old ? hk_take_smaller(n) : hk_malloc_unwatched(n, 8, HK_BY_MALLOC);
    if (q == NULL)
        return n < old ? p : NULL;
    memcpy(q, p, hk_min(old, n));
    if (!hk_hit_push(hk_load_relaxed(&hk_tc), p))
        hk_free_unwatched(p, HK_BY_MALLOC, HK_ANY_SIZE);
    return q;
}

void *hk_realloc(void *p, size_t n) {
    return HK_UNLIKELY(hk_watched()) ? hk_watched_realloc(p, n) : hk_realloc_unwatched(p, n);
}
