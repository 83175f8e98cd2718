#include "os/os.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>

size_t hk_os_page_size(void) {
    static _Atomic size_t cached;
    size_t bytes = hk_load_relaxed(&cached);
    if (HK_UNLIKELY(bytes == 0)) {
        bytes = getauxval(AT_PAGESZ);
        hk_store_relaxed(&cached, bytes);
    }
    return bytes;
}

#if HK_DEBUG
static atomic_long fail_countdown = -1;

void hk_os_fail_after(long calls) { hk_store_relaxed(&fail_countdown, calls); }

static bool refused(void) {
    long left = hk_load_relaxed(&fail_countdown);
    if (left < 0)
        return false;
    if (left == 0)
        return true;
    hk_store_relaxed(&fail_countdown, left - 1);
    return false;
}
#else
HK_INLINE bool refused(void) { return false; }
#endif

static void *map(size_t bytes, int protection, int flags) {
    if (refused())
        return NULL;
    int saved = errno;
    void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

void *hk_os_map(size_t bytes, size_t align) {
    char *p = map(bytes, PROT_READ | PROT_WRITE, 0);
    if (p == NULL || ((uintptr_t)p & (align - 1)) == 0)
        return p;
    /* Unlucky: take enough to hold an aligned range and give the ends back. */
    hk_os_unmap(p, bytes);
    size_t slack = align - hk_os_page_size();
    if (bytes > SIZE_MAX - slack)
        return NULL;
    p = map(bytes + slack, PROT_READ | PROT_WRITE, 0);
    if (p == NULL)
        return NULL;
    char *aligned = (char *)hk_align_up((uintptr_t)p, align);
    size_t before = (size_t)(aligned - p);
    if (before != 0)
        hk_os_unmap(p, before);
    if (slack != before)
        hk_os_unmap(aligned + bytes, slack - before);
    return aligned;
}

void *hk_os_reserve(size_t bytes) { return map(bytes, PROT_READ, MAP_NORESERVE); }

bool hk_os_commit(void *p, size_t bytes) {
    if (refused())
        return false;
    int saved = errno;
    bool ok = mprotect(p, bytes, PROT_READ | PROT_WRITE) == 0;
    errno = saved;
    return ok;
}

bool hk_os_unmap(void *p, size_t bytes) {
    int saved = errno;
    bool ok = munmap(p, bytes) == 0;
    errno = saved;
    return ok;
}

bool hk_os_purge(void *p, size_t bytes) {
    int saved = errno;
    bool ok = madvise(p, bytes, MADV_DONTNEED) == 0;
    errno = saved;
    return ok;
}

bool hk_os_move(void *from, size_t bytes, void *to, size_t new_bytes) {
    if (refused())
        return false;
    int saved = errno;
    bool ok = mremap(from, bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
    errno = saved;
    return ok;
}

void hk_os_want_huge_pages(void *p, size_t bytes) {
    int saved = errno;
    madvise(p, bytes, MADV_HUGEPAGE);
    errno = saved;
}
