#include "front/boundary.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "backend/large.h"
#include "backend/region.h"
#include "base/report.h"
#include "front/emergency.h"
#include "front/thread.h"

enum { FIRST_CAPACITY = 16 };

/* ---- magazines
 * ----------------------------------------------------------------------------------- */

static void **slots_of(hk_thread_t *thread, unsigned cls) {
    return &thread->slots[hk_classes[cls].first_slot];
}

/* Each visit to the boundary doubles a magazine, up to the class's most and as far as the thread's
 * budget of bytes goes: so magazines are large only where there is traffic. */
static void enlarge(hk_thread_t *thread, unsigned cls) {
    const hk_class_t *c = &hk_classes[cls];
    hk_magazine_t *mag = &thread->magazines[cls];
    void **slots = slots_of(thread, cls);
    unsigned more;
    if (HK_UNLIKELY(mag->capacity == 0)) {
        slots[0] = NULL;
        thread->cache.top[cls] = slots;
        more = (unsigned)hk_min(FIRST_CAPACITY, c->magazine);
        mag->refill = 4;
    } else {
        more = (unsigned)hk_min(mag->capacity, (size_t)(c->magazine - mag->capacity));
    }
    size_t bytes = (size_t)more * c->size;
    if (bytes > thread->budget) {
        /* two blocks are the least a magazine needs to make sense, budget or not */
        more = mag->capacity == 0 ? 2 : 0;
        bytes = hk_min((size_t)more * c->size, thread->budget);
    }
    thread->budget -= bytes;
    mag->capacity = (uint16_t)(mag->capacity + more);
    thread->cache.limit[cls] = slots + mag->capacity;
}

/* Fills the empty bin and takes one block from it. Misses in a row ask for more each time. */
static void *refill(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = &thread->magazines[cls];
    void **slots = slots_of(thread, cls);
    if (mag->capacity < hk_classes[cls].magazine)
        enlarge(thread, cls);
    unsigned half = (mag->capacity + 1u) / 2;
    unsigned want = mag->was_flush ? half : (unsigned)hk_min(mag->refill, mag->capacity);
    mag->refill = (uint16_t)hk_min(2 * want, hk_classes[cls].magazine);
    mag->was_flush = false;
    unsigned got = hk_heap_take(&thread->heap, cls, slots + 1, want);
    if (HK_UNLIKELY(got == 0))
        return NULL;
    void *p = slots[got];
    thread->cache.top[cls] = slots + got - 1;
    return p;
}

/* Makes room in the full bin: the older half goes back, or all of it where one flush follows
 * another. */
static void flush(hk_thread_t *thread, unsigned cls) {
    hk_magazine_t *mag = &thread->magazines[cls];
    void ***top = &thread->cache.top[cls];
    void **slots = slots_of(thread, cls);
    if (mag->capacity < hk_classes[cls].magazine)
        enlarge(thread, cls);
    unsigned held = (unsigned)(*top - slots);
    if (held < mag->capacity)
        return; /* it was not full after all, only not yet set up or smaller than it may be */
    unsigned n = mag->was_flush ? held : (held + 1u) / 2;
    mag->was_flush = true;
    hk_heap_give(&thread->heap, cls, slots + 1, n);
    memmove(slots + 1, slots + 1 + n, (held - n) * sizeof *slots);
    *top -= n;
}

static void push(hk_thread_t *thread, unsigned cls, void *p) {
    void ***top = &thread->cache.top[cls];
    if (*top == thread->cache.limit[cls])
        flush(thread, cls);
    *++*top = p;
}

/* ---- free
 * ---------------------------------------------------------------------------------------- */

/* The C library's own entries, for pointers that are its own. Absent in a static or foreign libc.
 */
void __libc_free(void *p) __attribute__((weak));
void *__libc_realloc(void *p, size_t n) __attribute__((weak));

static void free_entered(hk_thread_t *thread, void *p, unsigned kind) {
    if (HK_LIKELY(kind < HK_CLASS_COUNT))
        push(thread, kind, p);
    else if (kind == HK_KIND_LARGE || kind == HK_KIND_HUGE)
        hk_large_free(p, kind);
    else
        hk_emergency_free(p);
}

static HK_COLD void free_deferred(hk_thread_t *thread) {
    for (void *p; (p = hk_emergency_deferred()) != NULL;)
        free_entered(thread, p, hk_map_kind(p));
}

void hk_free_slow(void *p) {
    if (p == NULL)
        return;
    unsigned kind = hk_map_kind(p);
    if (kind == HK_KIND_FOREIGN) {
        if (__libc_free == NULL)
            hk_fatal(HK_INVALID_POINTER, p);
        __libc_free(p);
        return;
    }
    if (kind == HK_KIND_FREE)
        hk_fatal(HK_DOUBLE_FREE, p);
    if (kind == HK_KIND_INTERIOR)
        hk_fatal(HK_INVALID_FREE, p);
    hk_thread_t *thread = hk_thread_enter();
    if (HK_UNLIKELY(thread == NULL)) {
        hk_emergency_defer(p);
        return;
    }
    free_entered(thread, p, kind);
    free_deferred(thread);
    hk_thread_leave(thread);
}

/* ---- malloc
 * -------------------------------------------------------------------------------------- */

static void *take(hk_thread_t *thread, unsigned cls, size_t n, size_t align, size_t *dirty) {
    if (cls == 0)
        return hk_large_alloc(n, align, dirty);
    void *p = *thread->cache.top[cls];
    if (p == NULL)
        return refill(thread, cls);
    thread->cache.top[cls]--;
    return p;
}

/* Gives all free memory back to the system, as far as this thread can get at it; returns the bytes.
 */
static HK_COLD size_t reclaim(hk_thread_t *thread) {
    hk_thread_flush(thread);
    hk_heap_collect(&thread->heap);
    hk_heap_collect_others();
    size_t bytes = hk_pool_trim();
    return bytes + hk_region_trim();
}

/* A block of n bytes, aligned to `align`, from the bin of class cls or, where that is 0, a large
 * one. */
static void *allocate(unsigned cls, size_t n, size_t align, size_t *dirty) {
    *dirty = n;
    hk_thread_t *thread = hk_thread_enter();
    void *p;
    if (HK_UNLIKELY(thread == NULL)) {
        *dirty = 0;
        p = hk_emergency_alloc(n, align);
    } else {
        p = take(thread, cls, n, align, dirty);
        if (HK_UNLIKELY(p == NULL) && reclaim(thread) != 0)
            p = take(thread, cls, n, align, dirty);
        hk_thread_leave(thread);
    }
    if (HK_UNLIKELY(p == NULL))
        errno = ENOMEM;
    return p;
}

void *hk_malloc_slow(size_t n) {
    size_t dirty;
    return allocate(n <= HK_MID_MAX ? hk_class_of(n) : 0, n, 16, &dirty);
}

void *hk_calloc_large(size_t n) {
    size_t dirty;
    void *p = allocate(0, n, 16, &dirty);
    if (p != NULL && dirty != 0)
        memset(p, 0, hk_min(n, dirty));
    return p;
}

void *hk_aligned_large(size_t n, size_t align) {
    size_t dirty;
    return allocate(0, n, align, &dirty);
}

/* ---- realloc and the like
 * ------------------------------------------------------------------------ */

/* dlsym may allocate; by now that works. */
static HK_COLD size_t foreign_usable(const void *p) {
    typedef size_t usable_fn(void *);
    static _Atomic(usable_fn *) next;
    usable_fn *fn = hk_load_relaxed(&next);
    if (fn == NULL) {
        *(void **)&fn = dlsym(RTLD_NEXT, "malloc_usable_size");
        if (fn == NULL)
            hk_fatal(HK_INVALID_POINTER, p);
        hk_store_relaxed(&next, fn);
    }
    return fn((void *)(uintptr_t)p);
}

static size_t usable(const void *p, unsigned kind) {
    if (HK_LIKELY(kind != HK_KIND_FOREIGN && kind < HK_CLASS_COUNT))
        return hk_classes[kind].size;
    switch (kind) {
    case HK_KIND_LARGE:
    case HK_KIND_HUGE:
        return hk_large_usable(p, kind);
    case HK_KIND_EMERGENCY:
        return hk_emergency_usable(p);
    case HK_KIND_FOREIGN:
        return foreign_usable(p);
    default:
        hk_fatal(HK_INVALID_POINTER, p);
    }
}

size_t hk_usable(const void *p) { return p == NULL ? 0 : usable(p, hk_map_kind(p)); }

static void *resize_large(void *p, unsigned kind, size_t n) {
    hk_thread_t *thread = hk_thread_enter();
    if (thread == NULL)
        return NULL;
    void *q = hk_large_resize(p, kind, n);
    hk_thread_leave(thread);
    return q;
}

/* A block stays where it is as long as at least half of it is used; a large one grows in place or
 * by moving pages where it can. */
void *hk_realloc(void *p, size_t n) {
    unsigned kind = hk_map_kind(p);
    if (kind == HK_KIND_FOREIGN && __libc_realloc != NULL)
        return __libc_realloc(p, n);
    size_t old = usable(p, kind);
    if (n <= old && n >= old / 2)
        return p;
    if ((kind == HK_KIND_LARGE || kind == HK_KIND_HUGE) && n > HK_MID_MAX) {
        void *q = resize_large(p, kind, n);
        if (q != NULL)
            return q;
    }
    void *q = hk_malloc_slow(n);
    if (q == NULL)
        return NULL;
    memcpy(q, p, hk_min(old, n));
    hk_free_slow(p);
    return q;
}

bool hk_trim(void) {
    hk_thread_t *thread = hk_thread_enter();
    if (thread == NULL)
        return false;
    size_t bytes = reclaim(thread);
    hk_thread_leave(thread);
    return bytes != 0;
}
