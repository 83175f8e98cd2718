/* The entry points: hak_*, the malloc family, and C++'s operators under their mangled names. What
 * is not a hit, an alias or an argument check lies beyond the boundary. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "base/base.h"
#include "front/boundary.h"
#include "front/tcache.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

/* ---- hak_* ---- */

HK_EXPORT void *hak_malloc(size_t n) {
    void *p = hk_hit_pop(n);
    return HK_LIKELY(p != NULL) ? p : hk_malloc_slow(n);
}

HK_EXPORT void hak_free(void *p) {
    if (HK_UNLIKELY(!hk_hit_push(p)))
        hk_free_slow(p);
}

static void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

HK_EXPORT void *hak_calloc(size_t count, size_t size) {
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        return out_of_memory();
    if (n > HK_MID_MAX)
        return hk_calloc_large(n);
    void *p = hak_malloc(n);
    return p == NULL ? NULL : memset(p, 0, n);
}

HK_EXPORT void *hak_realloc(void *p, size_t n) {
    if (p == NULL)
        return hak_malloc(n);
    if (n == 0) {
        hak_free(p);
        return NULL;
    }
    return hk_realloc(p, n);
}

HK_EXPORT size_t hak_usable_size(const void *p) { return hk_usable(p); }

HK_EXPORT const char *hak_version(void) { return HK_VERSION; }

void *hk_aligned(size_t align, size_t n) {
    size_t up = hk_size_for_alignment(n, align);
    return HK_LIKELY(up <= HK_MID_MAX) ? hak_malloc(up) : hk_aligned_large(n, align);
}

HK_EXPORT void *hak_aligned_alloc(size_t align, size_t n) {
    if (!hk_is_pow2(align)) {
        errno = EINVAL;
        return NULL;
    }
    return hk_aligned(align, n);
}

/* ---- the malloc family ---- */

#if !HK_NO_OVERRIDE

/* Declared here and not by <stdlib.h>, whose attributes differ between C libraries. */
#define ALIAS(name) __attribute__((alias(#name), visibility("default")))
void *malloc(size_t n) ALIAS(hak_malloc);
void *calloc(size_t count, size_t size) ALIAS(hak_calloc);
void *realloc(void *p, size_t n) ALIAS(hak_realloc);
void *aligned_alloc(size_t align, size_t n) ALIAS(hak_aligned_alloc);
void free(void *p) ALIAS(hak_free);
void cfree(void *p) ALIAS(hak_free);
size_t malloc_usable_size(void *p) ALIAS(hak_usable_size);

void *reallocarray(void *p, size_t count, size_t size);
void *memalign(size_t align, size_t n);
int posix_memalign(void **out, size_t align, size_t n);
void *valloc(size_t n);
void *pvalloc(size_t n);
void free_sized(void *p, size_t n);
void free_aligned_sized(void *p, size_t align, size_t n);

HK_EXPORT void *reallocarray(void *p, size_t count, size_t size) {
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? out_of_memory() : hak_realloc(p, n);
}

/* As in the C library, an alignment that is no power of two is rounded up to one. */
HK_EXPORT void *memalign(size_t align, size_t n) {
    if (align > (size_t)PTRDIFF_MAX)
        return hak_aligned_alloc(0, n);
    size_t up = 1;
    while (up < align)
        up *= 2;
    return hk_aligned(up, n);
}

HK_EXPORT int posix_memalign(void **out, size_t align, size_t n) {
    if (!hk_is_pow2(align) || align % sizeof(void *) != 0)
        return EINVAL;
    int saved = errno;
    void *p = hk_aligned(align, n);
    errno = saved;
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

HK_EXPORT void *valloc(size_t n) { return hk_aligned(hk_os_page_size(), n); }

HK_EXPORT void *pvalloc(size_t n) {
    size_t page = hk_os_page_size();
    if (n > SIZE_MAX - page)
        return out_of_memory();
    return hk_aligned(page, hk_align_up(n, page));
}

/* The page map knows the size by one load; being told it saves nothing. */
HK_EXPORT void free_sized(void *p, size_t n) {
    (void)n;
    hak_free(p);
}

HK_EXPORT void free_aligned_sized(void *p, size_t align, size_t n) {
    (void)align, (void)n;
    hak_free(p);
}

/* ---- operator new and delete ---- */

/* The mangled names, here for a 64-bit size_t (m). Sized and nothrow forms of delete are plain
 * frees. */
#define DELETE(name, ...) void name(void *p, ##__VA_ARGS__) ALIAS(hak_free);
typedef struct nothrow nothrow_t;

/* the aliases ignore their further parameters */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattribute-alias"
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm, size_t n)
DELETE(_ZdaPvm, size_t n)
DELETE(_ZdlPvRKSt9nothrow_t, const nothrow_t *tag)
DELETE(_ZdaPvRKSt9nothrow_t, const nothrow_t *tag)
DELETE(_ZdlPvSt11align_val_t, size_t align)
DELETE(_ZdaPvSt11align_val_t, size_t align)
DELETE(_ZdlPvmSt11align_val_t, size_t n, size_t align)
DELETE(_ZdaPvmSt11align_val_t, size_t n, size_t align)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, size_t align, const nothrow_t *tag)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, size_t align, const nothrow_t *tag)
#pragma GCC diagnostic pop

static HK_NOINLINE void *new_slow(size_t n) {
    void *p = hk_malloc_slow(n);
    return HK_LIKELY(p != NULL) ? p : hk_new_failed(n, 16);
}

static HK_NOINLINE void *new_nothrow_slow(size_t n) {
    void *p = hk_malloc_slow(n);
    return HK_LIKELY(p != NULL) ? p : hk_new_failed_nothrow(n, 16);
}

void *_Znwm(size_t n);
void *_ZnwmRKSt9nothrow_t(size_t n, const nothrow_t *tag);
void *_ZnwmSt11align_val_t(size_t n, size_t align);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const nothrow_t *tag);
void *_Znam(size_t n) ALIAS(_Znwm);
void *_ZnamRKSt9nothrow_t(size_t n, const nothrow_t *tag) ALIAS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_t(size_t n, size_t align) ALIAS(_ZnwmSt11align_val_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const nothrow_t *tag)
    ALIAS(_ZnwmSt11align_val_tRKSt9nothrow_t);

HK_EXPORT void *_Znwm(size_t n) {
    void *p = hk_hit_pop(n);
    return HK_LIKELY(p != NULL) ? p : new_slow(n);
}

HK_EXPORT void *_ZnwmRKSt9nothrow_t(size_t n, const nothrow_t *tag) {
    (void)tag;
    void *p = hk_hit_pop(n);
    return HK_LIKELY(p != NULL) ? p : new_nothrow_slow(n);
}

HK_EXPORT void *_ZnwmSt11align_val_t(size_t n, size_t align) {
    void *p = hk_aligned(align, n);
    return HK_LIKELY(p != NULL) ? p : hk_new_failed(n, align);
}

HK_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const nothrow_t *tag) {
    (void)tag;
    void *p = hk_aligned(align, n);
    return HK_LIKELY(p != NULL) ? p : hk_new_failed_nothrow(n, align);
}

#endif
