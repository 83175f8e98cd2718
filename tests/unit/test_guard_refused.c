/* Fenced blocks while the system refuses memory: large blocks do without fences then, no mapping is lost, and later blocks
 * are fenced again. */
#include <errno.h>

#include "backend/mappings.h"
#include "backend/meta.h"
#include "faults.h"
#include "guard/fence.h"
#include "os/os.h"

#if HK_DEBUG

enum { LARGE = 300000 };

/* With memory available again, blocks must be fenced after at most HK_PATIENCE blocks. Then trims the
 * blocks that wait. */
static void is_fenced_again(void) {
    bool fenced = !hk_guard->fences;
    for (unsigned i = 0; !fenced; i++) {
        CHECK(i <= HK_PATIENCE);
        char *p = hak_malloc(LARGE);
        fenced = hk_map_kind(p) == HK_KIND_FENCED;
        hak_free(p);
    }
    while (hak_trim() != 0)
        continue;
}

static void add_bytes(const void *start, size_t bytes, void *sum) {
    (void)start;
    *(size_t *)sum += bytes;
}

/* Bytes held for blocks and kept for them, without the allocator's own memory, which stays. */
static size_t held_for_blocks(void) {
    size_t own = 0;
    hk_meta_visit(add_bytes, &own);
    return held_but_headers() - own;
}

/* The system refuses after `calls` calls. Large blocks must then come from slices, without fences, until
 * these run out too (ENOMEM). Fails if memory is lost, or blocks are not fenced again later. */
static void without_memory(void) {
    enum { MOST = 1000, MOST_CALLS = 24 };
    static char *blocks[MOST];
    size_t held = 0;
    const bool fences = hk_guard->fences; /* none where OS pages are too large */
    set_fences(false);
    char *in_slices = hak_malloc(LARGE); /* its superslab has free slices for more */
    set_fences(fences);
    CHECK(in_slices != NULL && hk_map_kind(in_slices) != HK_KIND_FENCED);
    is_fenced_again();
    for (long calls = MOST_CALLS; calls >= 0; calls--) {
        unsigned n = 0, bare = 0;
        errno = 0;
        hk_os_fail_after(calls);
        for (; (blocks[n] = hak_malloc(LARGE)) != NULL; n++) {
            CHECK(n + 1 < MOST && hak_usable_size(blocks[n]) >= LARGE);
            bare += hk_map_kind(blocks[n]) != HK_KIND_FENCED;
            memset(blocks[n], (int)n, LARGE);
        }
        hk_os_fail_after(-1);
        CHECK_EQ(errno, ENOMEM);
        CHECK(bare != 0);
        while (n-- > 0) {
            CHECK_EQ((unsigned char)blocks[n][0], (unsigned char)n);
            CHECK_EQ((unsigned char)blocks[n][LARGE - 1], (unsigned char)n);
            hak_free(blocks[n]);
        }
        is_fenced_again();
        CHECK(calls == MOST_CALLS || held_for_blocks() == held);
        held = held_for_blocks();
    }
    hak_free(in_slices);
}

/* If the system refuses one of the calls that make a fenced block, nothing of its mapping may stay: the
 * process's address space must not grow. */
static void no_mapping_is_lost(void) {
    enum { ROUNDS = 20, MOST_CALLS = 8 };
    size_t before = 0;
    for (unsigned round = 0; round <= ROUNDS; round++) {
        unsigned refused = 0;
        for (long calls = 0; calls <= MOST_CALLS; calls++) {
            is_fenced_again();
            hk_os_fail_after(calls);
            void *p = hk_fence_alloc(LARGE, 16, false, HK_BY_MALLOC);
            hk_os_fail_after(-1);
            refused += p == NULL;
            if (p != NULL)
                hak_free(p);
        }
        /* the call that maps, the one that opens the block, and the header page's if it is new */
        CHECK(refused >= 2);
        is_fenced_again();
        if (round == 0)
            before = hk_os_status("VmSize:");
    }
    CHECK(hk_os_status("VmSize:") < before + ROUNDS / 2 * LARGE);
}

int main(void) {
    guard();
    without_memory();
    if (hk_guard->fences)
        no_mapping_is_lost();
}

#else

int main(void) { return unit_skip("only a debug build can make the system refuse"); }

#endif
