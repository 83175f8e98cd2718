#include "guard/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

#include "backend/own.h"
#include "backend/pagemap.h"
#include "guard/guard.h"
#include "os/os.h"

/* Whether p lies on the calling thread's stack: above this frame and below the thread's descriptor.
 * Or on the first thread's, which ends where the kernel put the program's name: whichever thread
 * calls, its last 4 MiB (half of the usual limit, as arguments may take a quarter), where no system
 * maps anything else; farther down, above this frame. */
static bool is_on_stack(const void *p) {
    const size_t most = 64 * HK_MIB; /* farther away it belongs to another stack */
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0), at = (uintptr_t)p;
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    const uintptr_t top = hk_max(getauxval(AT_RANDOM), getauxval(AT_EXECFN));
    return (at > here && at < thread && thread - here < most) ||
           (at < top && (top - at < 4 * HK_MIB || (at > here && top - here < most)));
}

/* Whether glibc's allocator cannot have given p out, judging by the chunk's header and by the next
 * chunk's, which says whether this one is in use; or would take it for a mapping of its own and
 * unmap memory of ours. */
static bool is_forged(const void *p) {
#ifdef __GLIBC__
    enum { USED_BEFORE = 1, IS_MAPPED = 2, FLAGS = 7, LEAST = 32, UNIT = 16, MOST_LOG2 = 40 };
    const size_t *head = (const size_t *)p - 2, bytes = head[1] & ~(size_t)FLAGS;
    const char *from = (const char *)head - head[0], *end = (const char *)((uintptr_t)head + bytes);
    if (bytes < LEAST || bytes % UNIT != 0)
        return true;
    if ((head[1] & IS_MAPPED) == 0)
        return !hk_os_readable(end) || (((const size_t *)(const void *)end)[1] & USED_BEFORE) == 0;
    if ((head[0] | bytes) >> MOST_LOG2 != 0 || hk_own_meets(from, end))
        return true;
    for (; from < end; from += HK_SLICE)
        if (hk_map_kind(from) != HK_KIND_FOREIGN)
            return true;
    return hk_map_kind(end - 1) != HK_KIND_FOREIGN;
#else
    (void)p;
    return false;
#endif
}

/* The C library's free is called only if the pointer may be its own: it trusts the two words before
 * the block. */
bool hk_guard_disowns(const void *p, hk_fatal_t kind) {
    Dl_info object;
    const int saved = errno;
    const bool its = hk_is_aligned((uintptr_t)p, 16) && !is_on_stack(p) &&
                     dladdr(p, &object) == 0 && hk_os_readable((const char *)p - 16) &&
                     !hk_own_meets(p, (const char *)p + 1) && !is_forged(p);
    errno = saved;
    if (!its)
        hk_guard_fault(kind, p, HK_NO_SIZE, HK_NOWHERE);
    return !its;
}
