/* Learned size classes: a size requested for many slabs must get a class of its own, and lose it again;
 * which sizes it serves; sizes that must not be learned; the bound; and that blocks and aligned
 * requests stay right meanwhile. */
#include <pthread.h>

#include "backend/sizeclass.h"
#include "base/random.h"
#include "check.h"
#include "config/config.h"
#include "front/boundary.h"
#include "front/tcache.h"
#include "hakmem/hakmem.h"

/* The table must lead each size to a class that holds it, and each fixed class's own size to that class;
 * learned classes must have valid rows. */
static void table_is_whole(void) {
    for (size_t n = 0; n <= HK_MID_MAX; n++) {
        const unsigned cls = hk_class_of(n);
        CHECK(cls != 0 && cls < hk_class_end());
        CHECK(hk_classes[cls].size >= n);
        CHECK(hk_classes[cls].size <= hk_classes[hk_fixed_class_of(hk_max(n, 1))].size);
    }
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        CHECK_EQ(hk_class_of(hk_classes[cls].size), cls);
    for (unsigned cls = HK_CLASS_FIXED; cls < hk_class_end(); cls++) {
        const hk_class_t *c = &hk_classes[cls];
        const size_t slab = c->slices * HK_SLICE;
        CHECK(c->size % 16 == 0 && c->size > HK_LEARNED_FROM && c->size < HK_MID_MAX);
        CHECK((size_t)c->blocks * c->size <= slab && slab < (size_t)(c->blocks + 1) * c->size);
        CHECK((slab - (size_t)c->blocks * c->size) * 6 <= slab);
        CHECK(c->refill >= 1 && c->refill <= HK_MAGAZINE_REFILL(HK_LEARNED_FROM));
        CHECK(c->magazine >= c->refill && c->magazine <= HK_MAGAZINE(HK_LEARNED_FROM));
        for (size_t offset = 0; offset < slab; offset += 8)
            CHECK_EQ(hk_class_index(c, offset), offset / c->size);
    }
}

/* ---- blocks ---- */

enum { MOST = 1 << 17 };
static void *blocks[MOST];
static unsigned held;

/* Allocates blocks of n bytes, `bytes` in all, and fills them. */
static void hold(size_t n, size_t bytes) {
    for (size_t sum = 0; sum < bytes; sum += n) {
        char *p = hak_malloc(n);
        CHECK(p != NULL && held < MOST && hak_usable_size(p) >= n);
        CHECK((uintptr_t)p % 16 == 0 || n <= 8);
        memset(p, (int)(held % 251 + 1), hak_usable_size(p));
        blocks[held++] = p;
    }
}

static void free_all(void) {
    for (unsigned i = 0; i < held; i++) {
        const unsigned char *p = blocks[i];
        const size_t n = hak_usable_size(p);
        CHECK(p[0] == i % 251 + 1 && p[n / 2] == i % 251 + 1 && p[n - 1] == i % 251 + 1);
        hak_free(blocks[i]);
    }
    held = 0;
}

/* Many blocks of one size must make a class for it, and for smaller sizes down to the next class. */
static void a_size_gets_a_class(void) {
    const unsigned fixed = hk_class_of(4368);
    CHECK_EQ(hk_classes[fixed].size, 5120);
    void *before = hak_malloc(4368);
    hold(4368, 4 * HK_MIB);
    const unsigned cls = hk_class_of(4368);
    CHECK(cls >= HK_CLASS_FIXED);
    CHECK_EQ(hk_classes[cls].size, 4368);
    CHECK_EQ(hk_class_of(4097), cls);
    CHECK_EQ(hk_class_of(4369), fixed);
    CHECK_EQ(hk_class_of(4096), fixed - 1);
    void *after[64];
    for (unsigned i = 0; i < 64; i++)
        after[i] = hak_malloc(4368); /* the old class's magazine must not serve these */
    for (unsigned i = 0; i < 64; i++)
        CHECK_EQ(hak_usable_size(after[i]), 4368);
    CHECK_EQ(hak_usable_size(before), 5120); /* existing blocks keep their class */
    void *moved = hak_realloc(before, 4000);
    CHECK(moved == before);
    hak_free(moved);
    for (unsigned i = 0; i < 64; i++)
        hak_free(after[i]);
    table_is_whole();
}

static void aligned_requests_stay_aligned(void) {
    for (size_t align = 1; align <= 4096; align *= 2)
        for (size_t n = 1; n <= 3 * 4368; n += 117) {
            char *p = hak_aligned_alloc(align, n);
            CHECK((uintptr_t)p % align == 0 && hak_usable_size(p) >= n);
            memset(p, 1, n);
            hak_free(p);
        }
}

/* When its last slab is gone, a class must serve no size; if learned again, it must get the same number. */
static void there_is_a_way_back(void) {
    const unsigned cls = hk_class_of(4368), end = hk_class_end();
    free_all();
    hk_trim();
    CHECK_EQ(hk_class_of(4368), hk_fixed_class_of(4368));
    table_is_whole();
    hold(4368, 4 * HK_MIB);
    CHECK_EQ(hk_class_of(4368), cls);
    CHECK_EQ(hk_class_end(), end);
    free_all();
}

/* No class may be learned for a size that wastes little of its fixed class, is too small to be learned,
 * or is requested too seldom. */
static void what_is_not_worth_it(void) {
    const unsigned end = hk_class_end();
    if (HK_HOSTILE)
        return; /* there, any size is worth a class */
    hold(5100, 8 * HK_MIB);
    CHECK_EQ(hk_class_of(5100), hk_fixed_class_of(5100));
    hold(500, 4 * HK_MIB);
    hold(100, 4 * HK_MIB);
    hold(7000, 512 * HK_KIB); /* too few of them */
    CHECK_EQ(hk_class_end(), end);
    free_all();
}

/* Two sizes of one class, requested equally often: by chance most of some slabs in a row are of the same
 * size, which must not make a class. */
static void two_sizes_alike(void) {
    const unsigned end = hk_class_end();
    uint64_t chance = 1;
    if (HK_HOSTILE)
        return; /* there, two slabs are enough */
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < MOST; i++)
            hold(hk_random_below(&chance, 2) != 0 ? 144 : 160, 1);
        free_all();
    }
    CHECK_EQ(hk_class_end(), end);
}

/* Many sizes are worth a class; only as many as there are spare numbers may be learned. */
static void classes_are_bounded(void) {
    for (size_t n = 144; n < HK_MID_MAX; n += n / 5 / 16 * 16 + 16)
        if (hk_classes[hk_fixed_class_of(n)].size - n >= n / 12) {
            hold(n, 6 * HK_MIB);
            free_all();
            table_is_whole();
        }
    CHECK_EQ(hk_class_end(), HK_CLASS_COUNT);
    aligned_requests_stay_aligned();
}

/* ---- switched off; a hidden table; several threads ---- */

/* With HAKMEM_LEARN_SIZES=0 nothing must be learned. */
static void off(void) {
    hk_store_relaxed(&hk_config.learn, 0);
    const unsigned end = hk_class_end();
    hold(2100, 8 * HK_MIB);
    CHECK_EQ(hk_class_end(), end);
    CHECK_EQ(hk_class_of(2100), hk_fixed_class_of(2100));
    free_all();
    hk_store_relaxed(&hk_config.learn, 1);
}

/* While the table is hidden, hits must find no class, the boundary must, and a class learned meanwhile
 * must stay. */
static void hidden(void) {
    hk_classes_hide(true);
    CHECK_EQ(hk_load_relaxed(&hk_class_of_size[100]), 0);
    CHECK(hk_hit_pop(hk_load_relaxed(&hk_tc), 100) == NULL);
    table_is_whole();
    CHECK(hk_class_of(2608) < HK_CLASS_FIXED);
    hold(2608, 8 * HK_MIB);
    free_all();
    const unsigned cls = hk_class_of(2608);
    CHECK(cls >= HK_CLASS_FIXED);
    hk_classes_hide(false);
    CHECK_EQ(hk_class_of(2608), cls);
    CHECK_EQ(hk_load_relaxed(&hk_class_of_size[2608 / 8]), cls);
    table_is_whole();
}

static void *allocates(void *seed) {
    enum { HELD = 4096, ROUNDS = 40 };
    static _Thread_local struct {
        unsigned char *p;
        size_t n;
    } mine[HELD];
    uint64_t state = *(uint64_t *)seed;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const size_t base = 144 + chance_below(&state, 6000);
        for (unsigned i = 0; i < HELD; i++) {
            const size_t n = base + chance_below(&state, 64);
            unsigned char *p = hak_malloc(n);
            CHECK(p != NULL && hak_usable_size(p) >= n);
            p[0] = p[n - 1] = (unsigned char)i;
            mine[i].p = p;
            mine[i].n = n;
        }
        for (unsigned i = 0; i < HELD; i++) {
            CHECK(mine[i].p[0] == (unsigned char)i && mine[i].p[mine[i].n - 1] == (unsigned char)i);
            hak_free(mine[i].p);
        }
        if (round % 8 == 7)
            hk_trim();
    }
    return NULL;
}

/* Threads allocate, check and free blocks of random sizes while classes are learned and forgotten. */
static void threads_learn(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        CHECK(pthread_create(&threads[i], NULL, allocates, &seeds[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    table_is_whole();
}

/* ---- slabs that threads have hardly used ---- */

enum { BEGINNERS = 24 };
static pthread_barrier_t together;

static void *takes_one(void *unused) {
    void *p = hak_malloc(2100);
    pthread_barrier_wait(&together);
    hak_free(p);
    return unused;
}

/* Many threads use one block of a slab each: that must not make a class. */
static void beginners_teach_nothing(void *unused) {
    (void)unused;
    pthread_t threads[BEGINNERS];
    CHECK(pthread_barrier_init(&together, NULL, BEGINNERS) == 0);
    for (unsigned i = 0; i < BEGINNERS; i++)
        CHECK(pthread_create(&threads[i], NULL, takes_one, NULL) == 0);
    for (unsigned i = 0; i < BEGINNERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(hk_class_end(), HK_CLASS_FIXED);
    hold(4368, 1700 * HK_KIB); /* nor may their slabs hinder it once they are gone */
    CHECK(hk_class_of(4368) >= HK_CLASS_FIXED);
}

int main(void) {
    static child_t child; /* a child, so that this process stays with one heap */
    child_run(&child, beginners_teach_nothing, NULL);
    CHECK_EQ(child.status, 0);
    table_is_whole();
    a_size_gets_a_class();
    aligned_requests_stay_aligned();
    there_is_a_way_back();
    hidden();
    what_is_not_worth_it();
    two_sizes_alike();
    off();
    threads_learn();
    classes_are_bounded();
    return 0;
}
