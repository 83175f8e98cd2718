/* The research layers: each alone, and all sets of them under threads that free each other's blocks,
 * start, end, and are switched from set to set while they run. Each block's contents show whether it
 * was handed out twice or overwritten. */
#include <pthread.h>
#include <sched.h>

#include "backend/usage.h"
#include "check.h"
#include "front/observed.h"
#include "hakmem/hakmem.h"
#include "layers.h"
#include "pool_stats.h"

static const hk_layer_t research[] = {HK_LAYER_ULTRAHOT, HK_LAYER_C7_HOT, HK_LAYER_SLL,
                                      HK_LAYER_UNIFIED};
enum { RESEARCH = sizeof research / sizeof research[0] };

static hk_layers_t layers; /* belong to no thread */

static bool serves(hk_layer_t layer, unsigned cls) {
    return (hk_layers_of_band[hk_classes[cls].band] & HK_LAYER_BIT(layer)) != 0;
}

/* ---- one layer ---- */

/* A layer must have a shelf for exactly the classes of the bands that it serves. */
static void classes_are_bands(void) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        CHECK_EQ(serves(HK_LAYER_ULTRAHOT, cls),
                 cls >= HK_ULTRAHOT_FIRST && cls <= HK_ULTRAHOT_LAST);
        CHECK_EQ(serves(HK_LAYER_C7_HOT, cls), cls >= HK_C7_FIRST && cls <= HK_C7_LAST);
        CHECK(serves(HK_LAYER_SLL, cls) && serves(HK_LAYER_UNIFIED, cls));
    }
}

static size_t bytes_held(void) {
    size_t bytes = 0;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        bytes += (size_t)hk_layers_count(&layers, cls) * hk_classes[cls].size;
    return bytes;
}

static size_t bound_of(hk_layer_t layer) {
    const size_t bounds[] = {[HK_LAYER_ULTRAHOT] = 11 * HK_KIB,
                             [HK_LAYER_C7_HOT] = 26 * HK_KIB,
                             [HK_LAYER_SLL] = 908 * HK_KIB,
                             [HK_LAYER_UNIFIED] = 256 * HK_KIB};
    return bounds[layer];
}

/* Fills the layer with blocks of one class until it is full; they must come back in reverse, each once. */
static void fill_and_empty(hk_heap_t *heap, hk_layer_t layer, unsigned cls) {
    enum { MOST = 80 };
    void *blocks[MOST];
    unsigned got = 0, kept = 0;
    while (got < MOST)
        got += hk_heap_take(heap, cls, blocks + got, MOST - got);
    while (kept < got && hk_layer_give(&layers, layer, cls, blocks[kept]))
        CHECK_EQ(hk_layers_count(&layers, cls), ++kept);
    CHECK(kept > 0 && kept < got);
    CHECK(kept >= hk_layer_batch(layer, cls) || layer == HK_LAYER_UNIFIED);
    for (unsigned i = kept; i-- > 0;)
        CHECK(hk_layer_take(&layers, layer, cls) == blocks[i]);
    CHECK(hk_layer_take(&layers, layer, cls) == NULL);
    CHECK_EQ(hk_layers_count(&layers, cls), 0);
    hk_heap_give(heap, cls, blocks, got);
}

/* hk_layer_make_room() must make room in a full layer, and return how many blocks it moved. */
static void make_room(hk_heap_t *heap, hk_layer_t layer, unsigned cls) {
    void *p;
    CHECK_EQ(hk_heap_take(heap, cls, &p, 1), 1);
    while (hk_layer_give(&layers, layer, cls, p))
        CHECK_EQ(hk_heap_take(heap, cls, &p, 1), 1);
    unsigned before = hk_layers_count(&layers, cls);
    unsigned moved = hk_layer_make_room(&layers, layer, heap, cls);
    CHECK(moved > 0);
    CHECK(layer == HK_LAYER_UNIFIED || hk_layers_count(&layers, cls) == before - moved);
    CHECK(hk_layer_give(&layers, layer, cls, p));
}

static void one_layer(hk_layer_t layer) {
    hk_thread_t *thread = hk_thread_enter();
    hk_heap_t *heap = &thread->heap;
    hk_thread_flush(thread, true);
    size_t active = pool_stats().active;
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        if (serves(layer, cls))
            fill_and_empty(heap, layer, cls);
    CHECK_EQ(pool_stats().active, active);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        if (serves(layer, cls))
            make_room(heap, layer, cls);
    CHECK_EQ(pool_stats().active, active + bytes_held());
    CHECK(bytes_held() <= bound_of(layer));
    hk_layer_drain(&layers, layer, heap);
    CHECK_EQ(bytes_held(), 0);
    CHECK_EQ(pool_stats().active, active);
    hk_thread_leave(thread);
}

/* ---- a thread's layers ---- */

static size_t held(unsigned cls) {
    size_t blocks[HK_CLASS_COUNT];
    hk_threads_held(blocks);
    return blocks[cls];
}

/* A layer that is switched off must be emptied at the thread's next visit to the boundary. */
static void left_out(hk_layer_t layer, size_t size) {
    const unsigned cls = hk_class_of(size);
    set_plan(0);
    hak_free(hak_malloc(size));
    CHECK_EQ(held(cls), 0);
    void *p = hak_malloc(size);
    set_plan(HK_LAYER_BIT(layer));
    hak_free(p);
    CHECK_EQ(held(cls), 1);
    CHECK(hak_malloc(size) == p);
    hak_free(p);
    set_plan(0);
    CHECK_EQ(held(cls), 1);
    hak_free(hak_malloc(size)); /* the visit */
    CHECK_EQ(held(cls), 0);
    set_plan(HK_LAYER_BIT(layer));
    p = hak_malloc(size);
    hak_free(p);
    hk_trim();
    CHECK_EQ(held(cls), 0);
    set_plan(plan_of_the_product);
}

/* Magazines that are switched off must be emptied too; so must the lists once magazines alone are on
 * again. */
static void magazines_left_out(void) {
    const unsigned cls = hk_class_of(200);
    hak_free(hak_malloc(200));
    CHECK(hk_magazine_count(hk_load_relaxed(&hk_tc)->thread, cls) != 0);
    set_plan(HK_LAYER_BIT(HK_LAYER_SLL));
    void *p = hak_malloc(200);
    CHECK_EQ(hk_magazine_count(hk_load_relaxed(&hk_tc)->thread, cls), 0);
    hak_free(p);
    hk_sll_t *lists = &hk_load_relaxed(&hk_load_relaxed(&hk_tc)->thread->observed)->layers.sll;
    CHECK(lists->head[cls] == p);
    set_plan(plan_of_the_product);
    hak_free(hak_malloc(3000)); /* any visit to the boundary */
    CHECK(lists->head[cls] == NULL);
    hk_trim();
}

/* UltraHot must be asked before the magazines and the lists: its block comes first, the list's next. */
static void order(void) {
    const size_t size = 200;
    set_plan(HK_LAYER_BIT(HK_LAYER_SLL));
    void *in_list = hak_malloc(size), *in_magazine = hak_malloc(size), *fresh = hak_malloc(size);
    hak_free(in_list);
    set_plan(HK_LAYER_BIT(HK_LAYER_SLL) | HK_LAYER_BIT(HK_LAYER_HEAPV2) |
             HK_LAYER_BIT(HK_LAYER_ULTRAHOT));
    hak_free(in_magazine); /* goes into UltraHot, the first layer */
    CHECK(hak_malloc(size) == in_magazine);
    CHECK(hak_malloc(size) == in_list);
    hak_free(in_magazine);
    hak_free(in_list);
    hak_free(fresh);
    set_plan(plan_of_the_product);
    hk_trim();
}

/* The direct path for C7 must be filled before the first operation (early), at the first one (bound), or
 * never. */
static void *bound(void *plan) {
    const unsigned classes = HK_C7_LAST - HK_C7_FIRST + 1;
    size_t expected = ((uintptr_t)plan & HK_PLAN_C7_EARLY) != 0 ? HK_SHELF_MOST * classes : 0;
    hak_free(hak_malloc(8));
    for (unsigned cls = HK_C7_FIRST; cls <= HK_C7_LAST; cls++)
        expected -= held(cls);
    CHECK_EQ(expected, 0);
    void *p = hak_malloc(700);
    bool filled = ((uintptr_t)plan & HK_PLAN_C7_BOUND) != 0;
    CHECK_EQ(held(hk_class_of(700)), filled ? HK_SHELF_MOST - 1 : 0);
    hak_free(p);
    return NULL;
}

static void binding(void) {
    const unsigned how[] = {0, HK_PLAN_C7_BOUND, HK_PLAN_C7_BOUND | HK_PLAN_C7_EARLY};
    for (unsigned i = 0; i < 6; i++) { /* each twice: the second time on the same record */
        pthread_t id;
        unsigned plan = HK_LAYER_BIT(HK_LAYER_C7_HOT) | how[i / 2];
        set_plan(plan);
        hk_trim();
        hak_free(hak_malloc(8));
        hk_trim(); /* this thread holds nothing while the other looks */
        CHECK(pthread_create(&id, NULL, bound, (void *)(uintptr_t)plan) == 0);
        CHECK(pthread_join(id, NULL) == 0);
    }
    set_plan(plan_of_the_product);
}

static pthread_barrier_t together;

static void *keep_in_layers(void *unused) {
    void *p = hak_malloc(200);
    hak_free(p);
    CHECK(held(hk_class_of(200)) != 0);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    return unused;
}

static void trim_in_child(void *unused) {
    (void)unused;
    hk_trim();
    CHECK_EQ(held(hk_class_of(200)), 0);
}

/* In a fork's child a trim must empty the layers of threads that only the parent has, too. */
static void left_by_parent(void) {
    static child_t child;
    pthread_t id;
    set_plan(HK_LAYER_BIT(HK_LAYER_SLL));
    hk_trim();
    pthread_barrier_init(&together, NULL, 2);
    CHECK(pthread_create(&id, NULL, keep_in_layers, NULL) == 0);
    pthread_barrier_wait(&together);
    child_run(&child, trim_in_child, NULL);
    CHECK_TEXT(child.text, "");
    CHECK_EQ(child.status, 0);
    pthread_barrier_wait(&together);
    CHECK(pthread_join(id, NULL) == 0);
    set_plan(plan_of_the_product);
}

/* ---- threads ---- */

#if defined(__SANITIZE_THREAD__)
enum { STEPS = 300, BAND_STEPS = 20000 };
#elif HK_DEBUG
enum { STEPS = 1000, BAND_STEPS = 60000 };
#else
enum { STEPS = 4000, BAND_STEPS = 300000 };
#endif
enum { WORKERS = 3, PLACES = 600, LIFE = 4000 };

/* Starts every block; the bytes behind it, up to checked(n), are the low byte of the seed. */
typedef struct {
    uint32_t n;
    uint32_t seed;
} head_t;

static _Atomic(head_t *) table[PLACES]; /* atomic: the thread that takes a block out owns it */
static atomic_ulong steps;
static atomic_bool stop;
static size_t least, most; /* sizes; written between runs */

static size_t checked(size_t n) { return hk_min(n, 1200); }

static head_t *make(uint64_t *state) {
    size_t n = least + chance_below(state, (unsigned)(most - least + 1));
    if (most > 1024 && chance_below(state, 10) != 0)
        n = sizeof(head_t) + n % 1024;
    head_t *head = hak_malloc(n);
    CHECK(head != NULL);
    *head = (head_t){(uint32_t)n, (uint32_t)chance(state)};
    memset(head + 1, (int)(head->seed & 255), checked(n) - sizeof *head);
    return head;
}

static void drop(head_t *head) {
    if (head == NULL)
        return;
    CHECK(head->n >= sizeof *head && head->n <= HK_MID_MAX);
    const unsigned char *bytes = (const unsigned char *)head;
    for (size_t i = sizeof *head; i < checked(head->n); i++)
        CHECK_EQ(bytes[i], head->seed & 255);
    hak_free(head);
}

/* One thread's life: most blocks that it takes out of the table and frees are another thread's. */
static void *live(void *number) {
    uint64_t state = (uint64_t)(uintptr_t)number * 0x9e3779b97f4a7c15u + 1;
    for (unsigned i = 0; i < LIFE && !hk_load_relaxed(&stop); i++) {
        head_t *mine = chance_below(&state, 16) < 9 ? make(&state) : NULL;
        drop(atomic_exchange(&table[chance_below(&state, PLACES)], mine));
        if (i % 16 == 0)
            atomic_fetch_add(&steps, 16);
    }
    return NULL;
}

static void *lives(void *number) {
    for (uintptr_t life = (uintptr_t)number; !hk_load_relaxed(&stop); life += WORKERS) {
        pthread_t id;
        CHECK(pthread_create(&id, NULL, live, (void *)life) == 0);
        CHECK(pthread_join(id, NULL) == 0);
    }
    return NULL;
}

static void wait_for_steps(unsigned long n) {
    for (unsigned long end = atomic_load(&steps) + n; atomic_load(&steps) < end;)
        sched_yield();
}

static void empty_table(void) {
    for (unsigned i = 0; i < PLACES; i++)
        drop(atomic_exchange(&table[i], NULL));
    hk_trim();
}

/* Runs the workers until lead() returns. */
static void with_workers(size_t from, size_t to, void (*lead)(void)) {
    pthread_t ids[WORKERS];
    least = from;
    most = to;
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&ids[i], NULL, lives, (void *)(i + 1)) == 0);
    lead();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    set_plan(plan_of_the_product);
    empty_table();
}

static void stay(void) { wait_for_steps(BAND_STEPS); }

/* Frees by other threads in the band of 513 to 1024 bytes, with the lists on, must not corrupt the
 * lists. */
static void lists_in_band_c7(void) {
    const unsigned list = HK_LAYER_BIT(HK_LAYER_SLL);
    const unsigned sets[] = {list, list | HK_LAYER_BIT(HK_LAYER_HEAPV2),
                             list | HK_LAYER_BIT(HK_LAYER_C7_HOT) | HK_PLAN_C7_BOUND};
    for (unsigned i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        set_plan(sets[i]);
        with_workers(513, 1024, stay);
    }
}

/* Every set of layers, with and without metrics, passdown and C7 binding, in an order that changes many
 * of them at a time. */
static void all_sets(void) {
    enum { SETS = 1 << 8 };
    for (unsigned i = 0; i < SETS; i++) {
        unsigned set = i * 37 % SETS, plan = set & 31;
        plan |= (set & 32) != 0 ? HK_PLAN_METRICS : 0;
        plan |= (set & 64) != 0 ? HK_PLAN_PASSDOWN : 0;
        plan |= (set & 128) != 0 ? HK_PLAN_C7_BOUND | HK_PLAN_C7_EARLY : 0;
        set_plan(plan);
        wait_for_steps(STEPS);
        if (i % 16 == 0)
            hk_trim();
    }
}

/* Counts blocks, not bytes: learned classes may change the size of what the C library allocates for
 * cached stacks. */
static size_t blocks_in_use(void) {
    const size_t none[HK_CLASS_COUNT] = {0};
    hak_stats_t stats = {0};
    size_t blocks = 0;
    hk_usage_count(&stats, none);
    for (unsigned band = 0; band < HAK_STATS_BANDS; band++)
        blocks += stats.bands[band].blocks;
    return blocks;
}

int main(void) {
    classes_are_bands();
    hak_free(hak_malloc(1));
    for (unsigned i = 0; i < RESEARCH; i++)
        one_layer(research[i]);
    left_out(HK_LAYER_ULTRAHOT, 200);
    left_out(HK_LAYER_C7_HOT, 700);
    left_out(HK_LAYER_SLL, 700);
    left_out(HK_LAYER_UNIFIED, 5000);
    magazines_left_out();
    order();
    binding();
    left_by_parent();
    lists_in_band_c7();
    with_workers(sizeof(head_t), HK_MID_MAX, all_sets); /* the C library gets its memory */
    size_t before = blocks_in_use();
    with_workers(sizeof(head_t), HK_MID_MAX, all_sets);
    CHECK_EQ(blocks_in_use(), before); /* no block may be lost */
    return 0;
}
