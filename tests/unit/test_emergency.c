/* The emergency heap: each block has an aligned mapping of its own, which counts as held while the
 * block lives, and which its free unmaps without trusting the block's contents. */
#include "front/emergency.h"

#include "backend/limit.h"
#include "backend/pagemap.h"
#include "check.h"
#include "front/thread.h"

/* One block's life; n may be 0. Fails if the account of held bytes is not back where it was. */
static void block_of(size_t n, size_t align) {
    const size_t held = hk_held(), singles = hk_singles().bytes;
    char *p = hk_emergency_alloc(n, align);
    CHECK(p != NULL && (uintptr_t)p % align == 0);
    CHECK_EQ(hk_map_kind(p), HK_KIND_EMERGENCY);
    CHECK_EQ(hk_held() - held, hk_singles().bytes - singles);
    const size_t usable = hk_emergency_usable(p);
    CHECK(usable >= hk_max(n, 1));
    memset(p, 0x5a, usable);
    CHECK(hk_map_kind(p + usable - 1) == HK_KIND_EMERGENCY ||
          hk_map_kind(p + usable - 1) == HK_KIND_INTERIOR);
    hk_emergency_free(p);
    CHECK_EQ(hk_map_kind(p), HK_KIND_FOREIGN);
    CHECK_EQ(hk_held(), held);
    CHECK_EQ(hk_singles().bytes, singles);
}

static void free_it(void *p) { hk_emergency_free(p); }
static void ask_size(void *p) { hk_emergency_usable(p); }

/* Forges a descriptor at the start of the slice, which claims the next block's mapping too. */
static void forge(char *p) {
    char *slice = (char *)((uintptr_t)p & ~(uintptr_t)(HK_SLICE - 1));
    const size_t forged[] = {(size_t)slice, (size_t)(p - slice) + 4 * HK_SLICE,
                             (size_t)(p - slice)};
    memcpy(slice, forged, sizeof forged);
}

/* Freeing an address inside the block, or asking for its size, must abort. */
static void check_inside(char *p, size_t usable) {
    for (size_t at = 64; at < usable; at = at < HK_SLICE ? at * 4 : at + HK_SLICE) {
        if (hk_map_kind(p + at) != HK_KIND_EMERGENCY)
            continue;
        CHECK_FATAL(free_it, p + at, "invalid free", p + at);
        CHECK_FATAL(ask_size, p + at, "invalid pointer", p + at);
    }
}

/* Blocks lie side by side. Whatever is written into one, its free must not unmap the next one: the
 * memset would crash. */
static void only_itself_goes(size_t n) {
    enum { BLOCKS = 16 };
    char *blocks[BLOCKS];
    size_t usable[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = hk_emergency_alloc(n, 16)) != NULL);
        usable[i] = hk_emergency_usable(blocks[i]);
    }
    check_inside(blocks[0], usable[0]);
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        forge(blocks[i]);
        CHECK_EQ(hk_emergency_usable(blocks[i]), usable[i]);
        hk_emergency_free(blocks[i]);
        CHECK_EQ(hk_map_kind(blocks[i] + usable[i] - 1), HK_KIND_FOREIGN);
    }
    for (unsigned i = 1; i < BLOCKS; i += 2) {
        memset(blocks[i], 1, n);
        CHECK_EQ(hk_emergency_usable(blocks[i]), usable[i]);
        hk_emergency_free(blocks[i]);
    }
}

int main(void) {
    hk_thread_t *thread = hk_thread_enter(); /* sets hakmem up */
    if (thread != NULL)
        hk_thread_leave(thread);
    static const size_t sizes[] = {0, 1, 100, HK_SLICE - 1, HK_SLICE, HK_SLICE + 1, 300000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t align = 1; align <= 4 * HK_UNIT; align *= 2)
            block_of(sizes[i], align);
    only_itself_goes(100);
    only_itself_goes(3 * HK_SLICE);
    CHECK_EQ(hk_singles().blocks, 0);
    return 0;
}
