#include "guard/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

#include "backend/meta.h"
#include "backend/pagemap.h"
#include "guard/guard.h"
#include "os/os.h"

/* On the stack that it is called on: a thread's has its descriptor above, the first one's what the system put there. */
static bool is_on_stack(const void *p) {
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0), at = (uintptr_t)p;
    const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    const uintptr_t top = hk_max(getauxval(AT_RANDOM), getauxval(AT_EXECFN));
    const size_t most = 64 * HK_MIB; /* so far away the other one is, whose stack it is not */
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

/* The allocator's own memory: what is there may look like a chunk of the C library's. */
static bool is_own(const char *from, const char *end) {
    range_t range = {.from = from, .end = end};
    hk_meta_visit(meet, &range);
    hk_map_visit_own(meet, &range);
    return range.is_met;
}

/* Whether the C library's allocator cannot have given p out, as a chunk of its own says, and the next one, which says that
 * this one is in use; or would believe that it is a mapping, and unmap what is ours. */
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

/* What is none of ours may be the C library's own allocator's, which has two words before it and is asked no questions
 * unless it cannot be. */
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
