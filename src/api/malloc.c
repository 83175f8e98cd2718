/* The entry points: hak_*, the malloc family, and C++'s operators under their mangled names. They
 * hold the hits and the argument checks; everything else lies beyond the boundary.
 *
 * Each entry point has its own address and its own copy of the hit: valgrind and debuggers, which
 * tell entry points apart by address, would mistake aliases for each other. */

#include "api/api.h"
#include "base/calls.h"
#include "base/report.h"
#include "front/alone.h"
#include "front/boundary.h"
#include "front/crowd.h"
#include "front/guarded.h"
#include "front/observed.h"
#include "front/operators.h"
#include "front/tcache.h"
#include "guard/guard.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

/* ---- what they do ---- */

HK_INLINE void *allocate(size_t n) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    void *p = hk_hit_pop(tc, n);
    return HK_LIKELY(p != NULL) ? p : hk_malloc_slow(n, tc);
}

HK_INLINE void release(void *p) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    if (HK_UNLIKELY(!hk_hit_push(tc, p)))
        hk_free_slow(p, tc);
}

static HK_NOINLINE void *zeroed_slow(size_t n, hk_tcache_t *tc) {
    hk_quarantine_t *q = hk_load_acquire(&tc->guarded);
    if (q != NULL && n <= hk_guard->zeroed)
        return hk_guarded_malloc_alone(n, q); /* which reads as zero so far */
    void *p = hk_malloc_slow(n, tc);
    return p == NULL ? NULL : memset(p, 0, hk_usable(p));
}

HK_INLINE void *allocate_zeroed(size_t count, size_t size) {
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        return hk_refused();
    if (n > HK_MID_MAX)
        return hk_calloc_large(n);
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    void *p = hk_hit_pop(tc, n);
    return HK_LIKELY(p != NULL) ? memset(p, 0, hk_usable(p)) : zeroed_slow(n, tc);
}

HK_INLINE void *resize(void *p, size_t n) {
    if (p == NULL)
        return allocate(n);
    if (n == 0) {
        release(p);
        return NULL;
    }
    return hk_realloc(p, n);
}

static HK_NOINLINE void *aligned_slow(size_t align, size_t n) {
    if (hk_is_pow2(align))
        return hk_aligned_slow(n, align, HK_BY_MALLOC);
    errno = EINVAL;
    return NULL;
}

/* (An alignment of 0 passes the test here but never hits; aligned_slow() refuses it.) */
HK_INLINE void *allocate_aligned(size_t align, size_t n) {
    void *p = (align & (align - 1)) == 0 ? hk_hit_pop_aligned(n, align) : NULL;
    return HK_LIKELY(p != NULL) ? p : aligned_slow(align, n);
}

/* ---- hak_* ---- */

HK_EXPORT void *hak_malloc(size_t n) { return allocate(n); }
HK_EXPORT void hak_free(void *p) { release(p); }
HK_EXPORT void *hak_calloc(size_t count, size_t size) { return allocate_zeroed(count, size); }
HK_EXPORT void *hak_realloc(void *p, size_t n) { return resize(p, n); }
HK_EXPORT void *hak_aligned_alloc(size_t align, size_t n) { return allocate_aligned(align, n); }
HK_EXPORT size_t hak_usable_size(const void *p) { return hk_usable(p); }
/* Bytes from p to the end of its block. */
static size_t room_in(hk_around_t is, const void *p) {
    const size_t bytes = is.bytes != HK_NO_SIZE ? is.bytes : 0;
    return is.block == NULL ? SIZE_MAX
                            : bytes - hk_min(bytes, (size_t)((const char *)p - is.block));
}

HK_EXPORT size_t hak_room(const void *p) { return room_in(hk_around(p), p); }

HK_EXPORT void hak_check_range(const void *p, size_t n) {
    const hk_around_t is = hk_around(p);
    if (HK_LIKELY(n <= room_in(is, p)))
        return;
    const size_t into = (size_t)((const char *)p - is.block);
    if (is.bytes == HK_NO_SIZE)
        hk_guard_fault(HK_USE_AFTER_FREE, is.block, is.bytes, (ptrdiff_t)into);
    else /* at the first byte beyond */
        hk_guard_fault(HK_OVERFLOW, is.block, is.bytes, (ptrdiff_t)hk_max(into, is.bytes));
}

HK_EXPORT const char *hak_version(void) { return HK_VERSION; }

/* ---- the malloc family ---- */

#if !HK_NO_OVERRIDE

/* Declared here because the attributes in <stdlib.h> differ between C libraries. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
HK_EXPORT void *malloc(size_t n) { return allocate(n); }
void *hk_own_malloc(size_t n) __attribute__((alias("malloc")));
HK_EXPORT void *calloc(size_t count, size_t size) { return allocate_zeroed(count, size); }
HK_EXPORT void *realloc(void *p, size_t n) { return resize(p, n); }
HK_EXPORT void *aligned_alloc(size_t align, size_t n) { return allocate_aligned(align, n); }
HK_EXPORT size_t malloc_usable_size(void *p) { return hk_usable(p); }
HK_EXPORT void free(void *p) { release(p); }
HK_EXPORT void cfree(void *p) { release(p); }

/* Entry points that valgrind may not replace call those that it does, so that it never sees a block
 * of ours. */
HK_EXPORT void *reallocarray(void *p, size_t count, size_t size) {
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? hk_refused() : realloc(p, n);
}

/* As in the C library, `align` is rounded up to a power of two if there is one. */
HK_EXPORT void *memalign(size_t align, size_t n) {
    size_t up = hk_max(align, 1);
    while ((up & (up - 1)) != 0)
        up = (up | (up - 1)) + 1;
    return allocate_aligned(up, n);
}

static HK_NOINLINE int posix_memalign_slow(void **out, size_t align, size_t n) {
    if (!hk_is_pow2(align) || align % sizeof(void *) != 0)
        return EINVAL;
    void *p = HK_KEEP_ERRNO(aligned_slow(align, n));
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

HK_EXPORT int posix_memalign(void **out, size_t align, size_t n) {
    void *p = (align & ((align - 1) | 7)) == 0 ? hk_hit_pop_aligned(n, align) : NULL;
    if (HK_UNLIKELY(p == NULL))
        return posix_memalign_slow(out, align, n);
    *out = p;
    return 0;
}

HK_EXPORT void *valloc(size_t n) { return allocate_aligned(hk_os_page_size(), n); }

HK_EXPORT void *pvalloc(size_t n) {
    size_t page = hk_os_page_size();
    if (n > SIZE_MAX - page)
        return hk_refused();
    return memalign(page, hk_align_up(n, page));
}

/* The page map yields the size by one load, so the caller's n saves nothing. Where blocks are
 * guarded, n and `align` are checked. */
HK_INLINE void release_sized(void *p, size_t align, size_t n) {
    if (HK_UNLIKELY(hk_guarded()))
        hk_delete_slow(p, HK_BY_MALLOC, n, align);
    else
        free(p);
}

HK_EXPORT void free_sized(void *p, size_t n) { release_sized(p, 1, n); }
HK_EXPORT void free_aligned_sized(void *p, size_t align, size_t n) { release_sized(p, align, n); }

/* ---- operator new and delete ---- */

/* If the program replaces some operators, ours count as malloc and free, like the C library's: the
 * program may free by one family what it got from the other. */
static hk_by_t known(hk_by_t by) { return HK_LIKELY(hk_operators_are_ours()) ? by : HK_BY_MALLOC; }

/* The quarantine by which an operator goes the short way; NULL: it goes another way. */
HK_INLINE hk_quarantine_t *guarded_shortly(void) {
    const bool ours = hk_load_relaxed(&hk_derived.end) != 0; /* else `by` may have to be another */
    return ours ? hk_load_acquire(&hk_load_relaxed(&hk_tc)->guarded) : NULL;
}

/* Where operations are only counted or served from shelves, nothing depends on the function that
 * allocates or frees. */
HK_INLINE bool by_shelves(void) { return hk_load_relaxed(&hk_alone) == HK_ALONE_CROWD; }

static HK_NOINLINE void *new_longer(size_t n, size_t align, hk_by_t by) {
    hk_quarantine_t *q = align == 8 ? guarded_shortly() : NULL;
    void *p = q != NULL ? hk_guarded_new_alone(n, by, q) : NULL;
    if (q == NULL && align == 8 && by_shelves())
        p = hk_crowd_pop(n);
    by = known(by);
    if (p == NULL && q == NULL && hk_is_pow2(align))
        p = hk_aligned_slow(n, align, by);
    return HK_LIKELY(p != NULL) ? p : hk_new_failed(n, align, by);
}

static HK_NOINLINE void *new_slow(size_t n, size_t align, hk_by_t by) {
    void *p = align == 8 ? hk_counted_pop(hk_load_relaxed(&hk_tc), n) : NULL;
    return p != NULL ? p : new_longer(n, align, by);
}

HK_INLINE void delete_longer(void *p, hk_by_t by, size_t n, size_t align) {
    if (!by_shelves() || !hk_crowd_push(p))
        hk_delete_slow(p, known(by), n, align);
}

HK_INLINE void delete_slow(void *p, hk_by_t by, size_t n, size_t align) {
    if (hk_counted_push(hk_load_relaxed(&hk_tc), p))
        return;
    hk_quarantine_t *q = align == 1 ? guarded_shortly() : NULL;
    if (q != NULL)
        hk_guarded_delete_alone(p, by, n, q);
    else
        delete_longer(p, by, n, align);
}

static HK_NOINLINE void basic_delete_slow(void *p, hk_by_t by, size_t align) {
    delete_slow(p, by, HK_ANY_SIZE, align);
}

/* The same for derived forms (front/operators.h). `calls` or `aligned` is the form that the C++
 * library's own version would call; the other is NULL. */
typedef void *new_t(size_t n);
typedef void *new_aligned_t(size_t n, size_t align);

static HK_NOINLINE void *derived_new_slow(size_t n, size_t align, hk_by_t by, new_t *calls,
                                          new_aligned_t *aligned) {
    if (HK_LIKELY(hk_operators_are_ours()))
        return new_slow(n, align, by);
    return calls != NULL ? calls(n) : aligned(n, align);
}

static HK_NOINLINE void *derived_nothrow_slow(size_t n, size_t align, hk_by_t by, new_t *calls,
                                              new_aligned_t *aligned) {
    const bool ours = hk_operators_are_ours();
    void *p = ours && hk_is_pow2(align) ? hk_aligned_slow(n, align, by) : NULL;
    if (HK_LIKELY(p != NULL))
        return p;
    return hk_new_caught(ours ? NULL : calls, ours ? NULL : aligned, n, align, by,
                         by == HK_BY_NEW_ARRAY || by == HK_BY_ALIGNED_NEW_ARRAY);
}

/* Two functions: a shared one would cost the hit of a sized delete an instruction. */
static HK_NOINLINE void derived_delete_slow(void *p, hk_by_t by, size_t n, void calls(void *p)) {
    if (HK_LIKELY(hk_operators_are_ours()))
        delete_slow(p, by, n, 1);
    else
        calls(p);
}

static HK_NOINLINE void derived_delete_aligned_slow(void *p, hk_by_t by, size_t n, size_t align,
                                                    void calls(void *p, size_t align)) {
    if (HK_LIKELY(hk_operators_are_ours()))
        delete_slow(p, by, n, align);
    else
        calls(p, align);
}

typedef struct nothrow nothrow_t;

/* Derived forms by their mangled names, here for a 64-bit size_t (m). `slow` runs after a miss. */
#define NEW(name, slow, by, calls, ...)                                                            \
    HK_EXPORT void *name(size_t n, ##__VA_ARGS__) {                                                \
        void *p = hk_hit_pop_derived(n);                                                           \
        return HK_LIKELY(p != NULL) ? p : slow(n, 8, by, HK_SERVING(calls), NULL);                 \
    }
#define NEW_ALIGNED(name, slow, by, calls, ...)                                                    \
    HK_EXPORT void *name(size_t n, size_t align, ##__VA_ARGS__) {                                  \
        void *p = hk_hit_pop_derived_aligned(n, align);                                            \
        return HK_LIKELY(p != NULL) ? p : slow(n, align, by, NULL, HK_SERVING(calls));             \
    }
#define DELETE(name, by, size, calls, ...)                                                         \
    HK_EXPORT void name(void *p, ##__VA_ARGS__) {                                                  \
        if (HK_UNLIKELY(!hk_hit_push_derived(p)))                                                  \
            derived_delete_slow(p, by, size, HK_SERVING(calls));                                   \
    }
#define DELETE_ALIGNED(name, by, size, calls, ...)                                                 \
    HK_EXPORT void name(void *p, ##__VA_ARGS__) {                                                  \
        if (HK_UNLIKELY(!hk_hit_push_derived(p)))                                                  \
            derived_delete_aligned_slow(p, by, size, align, HK_SERVING(calls));                    \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
HK_EXPORT void *_Znwm(size_t n) {
    void *p = hk_hit_pop(hk_load_relaxed(&hk_tc), n);
    return HK_LIKELY(p != NULL) ? p : new_slow(n, 8, HK_BY_NEW);
}

HK_EXPORT void *_ZnwmSt11align_val_t(size_t n, size_t align) {
    void *p = hk_hit_pop_aligned(n, align);
    return HK_LIKELY(p != NULL) ? p : new_slow(n, align, HK_BY_ALIGNED_NEW);
}

HK_EXPORT void _ZdlPv(void *p) {
    if (HK_UNLIKELY(!hk_hit_push(hk_load_relaxed(&hk_tc), p)))
        basic_delete_slow(p, HK_BY_NEW, 1);
}

HK_EXPORT void _ZdlPvSt11align_val_t(void *p, size_t align) {
    if (HK_UNLIKELY(!hk_hit_push(hk_load_relaxed(&hk_tc), p)))
        basic_delete_slow(p, HK_BY_ALIGNED_NEW, align);
}

NEW(_Znam, derived_new_slow, HK_BY_NEW_ARRAY, _Znwm)
NEW(_ZnwmRKSt9nothrow_t, derived_nothrow_slow, HK_BY_NEW, _Znwm, const nothrow_t *tag)
NEW(_ZnamRKSt9nothrow_t, derived_nothrow_slow, HK_BY_NEW_ARRAY, _Znam, const nothrow_t *tag)
NEW_ALIGNED(_ZnamSt11align_val_t, derived_new_slow, HK_BY_ALIGNED_NEW_ARRAY, _ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t, derived_nothrow_slow, HK_BY_ALIGNED_NEW,
            _ZnwmSt11align_val_t, const nothrow_t *tag)
NEW_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t, derived_nothrow_slow, HK_BY_ALIGNED_NEW_ARRAY,
            _ZnamSt11align_val_t, const nothrow_t *tag)

DELETE(_ZdaPv, HK_BY_NEW_ARRAY, HK_ANY_SIZE, _ZdlPv)
DELETE(_ZdlPvm, HK_BY_NEW, n, _ZdlPv, size_t n)
DELETE(_ZdaPvm, HK_BY_NEW_ARRAY, n, _ZdaPv, size_t n)
DELETE(_ZdlPvRKSt9nothrow_t, HK_BY_NEW, HK_ANY_SIZE, _ZdlPv, const nothrow_t *tag)
DELETE(_ZdaPvRKSt9nothrow_t, HK_BY_NEW_ARRAY, HK_ANY_SIZE, _ZdaPv, const nothrow_t *tag)
DELETE_ALIGNED(_ZdaPvSt11align_val_t, HK_BY_ALIGNED_NEW_ARRAY, HK_ANY_SIZE, _ZdlPvSt11align_val_t,
               size_t align)
DELETE_ALIGNED(_ZdlPvmSt11align_val_t, HK_BY_ALIGNED_NEW, n, _ZdlPvSt11align_val_t, size_t n,
               size_t align)
DELETE_ALIGNED(_ZdaPvmSt11align_val_t, HK_BY_ALIGNED_NEW_ARRAY, n, _ZdaPvSt11align_val_t, size_t n,
               size_t align)
DELETE_ALIGNED(_ZdlPvSt11align_val_tRKSt9nothrow_t, HK_BY_ALIGNED_NEW, HK_ANY_SIZE,
               _ZdlPvSt11align_val_t, size_t align, const nothrow_t *tag)
DELETE_ALIGNED(_ZdaPvSt11align_val_tRKSt9nothrow_t, HK_BY_ALIGNED_NEW_ARRAY, HK_ANY_SIZE,
               _ZdaPvSt11align_val_t, size_t align, const nothrow_t *tag)

#define OWN(name, result, ...) result hk_own##name(__VA_ARGS__) __attribute__((alias(#name)));
HK_CALLED_OPERATORS(OWN)
#pragma GCC diagnostic pop

#endif
