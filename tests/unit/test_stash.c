/* Stashes: runs on a stash count as free, their amount is bounded, and they go back to the pool in time. The tests work
 * on a heap of their own, and only pretend that there are several threads. */
#include "backend/heap.h"

#include <pthread.h>

#include "backend/large.h"
#include "backend/usage.h"
#include "check.h"
#include "front/thread.h"

enum { MOST = 16, LONGEST = 8, COOLING = 32 };

static hk_heap_t heap;

static char *take(unsigned slices) {
    size_t dirty;
    char *p = hk_large_alloc(&heap, slices * HK_SLICE, 16, &dirty);
    CHECK(p != NULL);
    CHECK_EQ(hk_map_kind(p), HK_KIND_LARGE);
    CHECK_EQ(hk_large_usable(p, HK_KIND_LARGE), slices * HK_SLICE);
    memset(p, 0x5a, slices * HK_SLICE);
    return p;
}

static size_t give(char *p) { return hk_large_free(&heap, p, HK_KIND_LARGE); }

static unsigned held(void) {
    unsigned slices = 0;
    for (unsigned i = 0; i < HK_STASH_RUNS; i++) {
        const uintptr_t entry = hk_load_relaxed(&heap.stash.runs[i]);
        slices += entry != 0 ? (unsigned)(entry % HK_SLICES) + 1 : 0;
    }
    return slices;
}

static size_t blocks_in_use(void) {
    const size_t none[HK_CLASS_COUNT] = {0};
    hak_stats_t stats = {0};
    hk_usage_count(&stats, none);
    return stats.bands[HAK_BAND_LARGE].blocks;
}

/* The next allocation gets the run freed last of its length, and is told that it may be dirty. Meanwhile the run does
 * not count as in use. */
static void what_was_freed_last_serves_next(void) {
    const size_t before = blocks_in_use();
    char *p = take(3), *q = take(3), *r = take(2);
    CHECK_EQ(blocks_in_use(), before + 3);
    give(p), give(q), give(r);
    CHECK_EQ(held(), 8);
    CHECK_EQ(hk_map_kind(p), HK_KIND_FREE);
    CHECK_EQ(blocks_in_use(), before);
    size_t dirty = 0;
    CHECK(hk_large_alloc(&heap, 3 * HK_SLICE - 1, 16, &dirty) == q);
    CHECK_EQ(dirty, 3 * HK_SLICE - 1);
    CHECK(take(2) == r && take(3) == p);
    CHECK_EQ(held(), 0);
    give(p), give(q), give(r);
    hk_heap_collect(&heap);
    CHECK_EQ(held(), 0);
}

static void free_twice(void *p) {
    give(p);
    give(p);
}

static void a_second_free_is_found(void) {
    char *p = take(1);
    CHECK_FATAL(free_twice, p, "double free", p);
    give(p);
    hk_stash_clear(&heap.stash);
}

/* A stash holds at most MOST slices, and no run longer than LONGEST. */
static void so_much_and_no_more(void) {
    enum { BLOCKS = HK_STASH_RUNS - 1 };
    char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = take(1 + i % LONGEST);
    for (unsigned i = 0; i < BLOCKS; i++) {
        give(blocks[i]);
        CHECK(held() <= MOST && held() >= 1 + i % LONGEST);
    }
    hk_stash_clear(&heap.stash);
    give(take(LONGEST + 1));
    CHECK_EQ(held(), 0);
}

static bool lies_here(const char *p) {
    const uintptr_t entry = (uintptr_t)hk_slab_of(p);
    for (unsigned i = 0; i < HK_STASH_RUNS; i++)
        if (hk_load_relaxed(&heap.stash.runs[i]) == entry)
            return true;
    return false;
}

/* A thread that only frees keeps COOLING slices, the latest ones. Once it allocates large blocks, or with many threads,
 * it keeps at most MOST. */
static void what_others_get_lies_here_longer(void) {
    enum { BLOCKS = HK_STASH_RUNS + COOLING };
    char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = take(1);
    for (unsigned i = 0; i < BLOCKS; i++)
        give(blocks[i]);
    CHECK_EQ(held(), COOLING);
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK_EQ(lies_here(blocks[i]), i >= BLOCKS - COOLING);
    char *last = take(1);
    CHECK(last == blocks[BLOCKS - 1]);
    give(last);
    CHECK_EQ(held(), MOST);
    hk_stash_clear(&heap.stash);
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = take(1);
    hk_store_relaxed(&hk_heap_threads, 7u);
    for (unsigned i = 0; i < BLOCKS; i++)
        give(blocks[i]);
    hk_store_relaxed(&hk_heap_threads, 2u);
    CHECK(held() <= MOST);
    hk_stash_clear(&heap.stash);
}

/* A single thread keeps one run, of the length of its latest request. */
static void alone(void) {
    const unsigned threads = hk_load_relaxed(&hk_heap_threads);
    hk_store_relaxed(&hk_heap_threads, 1u);
    char *p = take(1), *q = take(LONGEST + 1), *r = take(2), *s = take(2);
    give(p), give(q);
    CHECK_EQ(held(), 0);
    give(r), give(s);
    CHECK_EQ(held(), 2);
    CHECK(take(2) == s);
    give(s), give(take(1));
    CHECK_EQ(held(), 1);
    hk_stash_clear(&heap.stash);
    hk_store_relaxed(&hk_heap_threads, threads);
}

/* The first free between two looks reports its bytes as free, later ones do not; a look with no use since the look
 * before clears the stash. */
static void what_is_not_used_goes(void) {
    char *p = take(4);
    hk_stash_look(&heap.stash);
    CHECK_EQ(give(p), 4 * HK_SLICE);
    CHECK(take(4) == p);
    CHECK_EQ(give(p), 0);
    hk_stash_look(&heap.stash);
    CHECK_EQ(held(), 4);
    CHECK(take(4) == p);
    CHECK_EQ(give(p), 4 * HK_SLICE);
    hk_stash_look(&heap.stash);
    hk_stash_look(&heap.stash);
    CHECK_EQ(held(), 0);
}

/* A heap that needs a new slab clears its stash. */
static void growth_takes_it(void) {
    give(take(4));
    CHECK_EQ(held(), 4);
    void *block;
    for (unsigned i = 0; held() != 0; i++) {
        CHECK(i < 100);
        CHECK(hk_heap_take(&heap, hk_class_of(HK_MID_MAX), &block, 1) == 1);
    }
}

/* A block grows in place into the run behind it if that lies on the stash. */
static void a_block_grows_into_it(void) {
    char *all = take(HK_SLICES);
    give(all);
    char *p = take(2), *q = take(2);
    CHECK(q == p + 2 * HK_SLICE);
    give(q);
    CHECK_EQ(held(), 2);
    CHECK(hk_large_resize(&heap, p, HK_KIND_LARGE, 4 * HK_SLICE) == p);
    CHECK_EQ(held(), 0);
    give(p);
    hk_stash_clear(&heap.stash);
}

static void *leaves_one(void *unused) {
    hk_thread_t *thread = hk_thread_enter();
    size_t dirty;
    CHECK(thread != NULL);
    char *p = hk_large_alloc(&thread->heap, HK_SLICE, 16, &dirty);
    CHECK(p != NULL);
    hk_large_free(&thread->heap, p, HK_KIND_LARGE);
    hk_heap_t *own = &thread->heap;
    hk_thread_leave(thread);
    CHECK(hk_load_relaxed(&own->stash.runs[0]) != 0);
    (void)unused;
    return own;
}

/* A thread's end clears its stash. */
static void a_thread_ends(void) {
    pthread_t thread;
    void *own;
    CHECK(pthread_create(&thread, NULL, leaves_one, NULL) == 0);
    CHECK(pthread_join(thread, &own) == 0);
    for (unsigned i = 0; i < HK_STASH_RUNS; i++)
        CHECK_EQ(hk_load_relaxed(&((hk_heap_t *)own)->stash.runs[i]), 0);
}

static atomic_bool done;

static void *clearer(void *unused) {
    while (!hk_load_relaxed(&done))
        hk_stash_clear(&heap.stash);
    return unused;
}

/* While another thread clears the stash, no run serves two blocks at a time: each block keeps its contents. */
static void others_clear(void) {
    enum { BLOCKS = 24, ROUNDS = 20000 };
    static char *blocks[BLOCKS];
    uint64_t rng = 7;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, clearer, NULL) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        const unsigned i = chance_below(&rng, BLOCKS);
        size_t dirty;
        if (blocks[i] != NULL) {
            CHECK(blocks[i][0] == (char)i && blocks[i][HK_SLICE - 1] == (char)i);
            give(blocks[i]);
        }
        blocks[i] = hk_large_alloc(&heap, (1 + chance_below(&rng, 3)) * HK_SLICE, 16, &dirty);
        CHECK(blocks[i] != NULL);
        blocks[i][0] = blocks[i][HK_SLICE - 1] = (char)i;
    }
    hk_store_relaxed(&done, true);
    CHECK(pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i] != NULL)
            give(blocks[i]);
    hk_stash_clear(&heap.stash);
    CHECK_EQ(held(), 0);
}

int main(void) {
    hk_thread_t *thread = hk_thread_enter(); /* sets up the allocator */
    if (thread != NULL)
        hk_thread_leave(thread);
    hk_heap_init(&heap);
    hk_store_relaxed(&hk_heap_threads, 2u);
    char *live[4 * MOST]; /* the stash may hold only a part of what is in use */
    for (unsigned i = 0; i < 4 * MOST; i++)
        live[i] = take(1);
    what_was_freed_last_serves_next();
    a_second_free_is_found();
    so_much_and_no_more();
    what_others_get_lies_here_longer();
    alone();
    what_is_not_used_goes();
    growth_takes_it();
    a_block_grows_into_it();
    a_thread_ends();
    others_clear();
    for (unsigned i = 0; i < 4 * MOST; i++)
        give(live[i]);
    return 0;
}
