/* The emergency heap: each block lies in a mapping of its own, all of it, aligned as asked for. */
#include "front/emergency.h"

#include "backend/pagemap.h"
#include "check.h"
#include "front/thread.h"

/* Also where there is nothing to lie there. */
static void block_of(size_t n, size_t align) {
    char *p = hk_emergency_alloc(n, align);
    CHECK(p != NULL && (uintptr_t)p % align == 0);
    CHECK_EQ(hk_map_kind(p), HK_KIND_EMERGENCY);
    const size_t usable = hk_emergency_usable(p);
    CHECK(usable >= hk_max(n, 1));
    memset(p, 0x5a, usable);
    CHECK(hk_map_kind(p + usable - 1) == HK_KIND_EMERGENCY ||
          hk_map_kind(p + usable - 1) == HK_KIND_INTERIOR);
    hk_emergency_free(p);
    CHECK_EQ(hk_map_kind(p), HK_KIND_FOREIGN);
}

int main(void) {
    hk_thread_t *thread = hk_thread_enter(); /* all there is to set up */
    if (thread != NULL)
        hk_thread_leave(thread);
    static const size_t sizes[] = {0, 1, 100, HK_SLICE - 1, HK_SLICE, HK_SLICE + 1, 300000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t align = 1; align <= 4 * HK_UNIT; align *= 2)
            block_of(sizes[i], align);
    return 0;
}
