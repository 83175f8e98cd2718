#include "guard/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "guard/guard.h"
#include "os/os.h"

/* Whether p lies on the calling stack: above this frame, and below the thread's descriptor or, on
 * the main thread, below what the kernel put there. */
static bool is_on_stack(const void *p) {
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0), at = (uintptr_t)p;
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    const uintptr_t top = hk_max(getauxval(AT_RANDOM), getauxval(AT_EXECFN));
    const size_t most = 64 * HK_MIB; /* farther away it belongs to another stack */
    return at > here && ((at < thread && thread - here < most) || (at < top && top - here < most));
}

typedef struct {
    const char *from, *end;
    bool is_met;
} range_t;

static void meet(const void *start, size_t bytes, void *argument) {
    range_t *range = argument;
    const char *own = start;
    range->is_met |= own < range->end && range->from < own + bytes;
}

/* Whether the range meets the allocator's own memory, whose contents may look like a chunk. */
static bool is_own(const char *from, const char *end) {
    range_t range = {.from = from, .end = end};
    hk_meta_visit(meet, &range);
    hk_map_visit_own(meet, &range);
    return range.is_met;
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
    if ((head[0] | bytes) >> MOST_LOG2 != 0 || is_own(from, end))
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
                     !is_own(p, (const char *)p + 1) && !is_forged(p);
    errno = saved;
    if (!its)
        hk_guard_fault(kind, p, HK_NO_SIZE, HK_NOWHERE);
    return !its;
}
