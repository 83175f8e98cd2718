#include "front/crowd.h"

#include "policy/look.h"

/* A crowd's thread has another look at whether it belongs there after so many visits to a class, and is busy after that many. */
enum { CROWD_VISITS = 32, BUSY_VISITS = 30 * CROWD_VISITS };

/* Threads that have so little each, on average, and are so many, share their slabs for long. */
enum { VERY_MANY = HK_HOSTILE ? 4 : 96 };
#define LITTLE_EACH HK_MIB

/* So many blocks of a class lie on a shelf at most, and so many bytes; none of a larger one. */
enum { SLOTS = HK_HOSTILE ? 2 : 16 };
#define SHELF_BYTES (8 * HK_KIB)
#define LARGEST (4 * HK_KIB)

hk_heap_t hk_crowds[HK_CROWDS];
atomic_uint hk_crowds_idle;

/* atomic: any thread; a block, or NULL. Untouched pages until there are many threads */
static _Alignas(HK_CACHE_LINE) _Atomic(void *) shelves[HK_CROWDS][HK_CLASS_COUNT][SLOTS];
static atomic_uint more;     /* atomic: any thread; but for the first, how many are in use */
static atomic_bool gathered; /* atomic: written under the registry lock; there were many once */

/* Not before there are many threads: most processes never touch these pages. Once they are few again anybody may have
 * the slabs. */
HK_COLD void hk_crowds_gather_locked(bool many) {
    const bool before = hk_load_relaxed(&gathered);
    for (unsigned i = 0; i < HK_CROWDS && !before; i++)
        hk_heap_init(&hk_crowds[i]);
    for (unsigned i = 0; i < HK_CROWDS && before; i++)
        hk_heap_set_orphan(&hk_crowds[i], !many);
    hk_store_relaxed(&hk_crowds_idle, many ? 0u : (unsigned)HK_CROWDS);
    hk_store_release(&gathered, true);
}

hk_heap_t *hk_crowd(hk_thread_t *thread) {
    const unsigned last = hk_load_relaxed(&more);
    unsigned looks = 0;
    for (; looks <= last && hk_lock_is_taken(&hk_crowds[thread->crowd].lock); looks++)
        thread->crowd = thread->crowd < last ? thread->crowd + 1 : 0;
    if (looks > last && last + 1 < HK_CROWDS)
        hk_store_relaxed(&more, thread->crowd = last + 1);
    return &hk_crowds[thread->crowd];
}

static unsigned in_use(void) { return hk_load_acquire(&gathered) ? hk_load_relaxed(&more) + 1 : 0; }

/* ---- who is one of it ---- */

/* One of many threads does, but for one that comes and goes where they are not very many: a record that has served
 * several would have each of them cross the boundary for nearly every block. */
bool hk_crowd_begins(const hk_thread_t *thread) {
    return hk_threads_are_many() &&
           (hk_load_relaxed(&hk_heap_threads) > VERY_MANY || !hk_thread_comes_and_goes(thread));
}

/* Whether there are very many threads that have little each. */
static HK_COLD bool are_very_many(void) {
    const size_t threads = hk_load_relaxed(&hk_heap_threads);
    return threads > VERY_MANY && hk_look_in_use() / threads < LITTLE_EACH;
}

/* So many visits end it, and where there are very many threads that have little each, once it has turned out to be busy. */
bool hk_crowd_stays(hk_magazine_t *magazine) {
    if (++magazine->crowd_visits % CROWD_VISITS == 0)
        magazine->crowd = magazine->crowd_visits < BUSY_VISITS && are_very_many();
    return magazine->crowd;
}

/* ---- shelves ---- */

typedef _Atomic(void *) slot_t;

static unsigned slots_for(unsigned cls) {
    const size_t size = hk_classes[cls].size;
    return size > LARGEST || hk_heap_is_sparse(cls) ? 0
                                                    : (unsigned)hk_min(SHELF_BYTES / size, SLOTS);
}

static void *take_from(slot_t *shelf) {
    for (unsigned i = 0; i < SLOTS; i++) {
        void *p = hk_load_relaxed(&shelf[i]);
        if (p != NULL && (p = hk_exchange_acquire(&shelf[i], NULL)) != NULL)
            return p;
    }
    return NULL;
}

static bool put_on(slot_t *shelf, unsigned slots, void *p) {
    for (unsigned i = 0; i < slots; i++) {
        void *none = NULL;
        if (hk_load_relaxed(&shelf[i]) == NULL && hk_cas_seq(&shelf[i], &none, p))
            return true;
    }
    return false;
}

/* Where the shelf is empty half of one is fetched. */
void *hk_crowd_take(hk_thread_t *thread, unsigned cls) {
    void *few[SLOTS], *p = take_from(shelves[thread->crowd][cls]);
    if (p != NULL)
        return p;
    const unsigned slots = slots_for(cls);
    hk_heap_t *heap = hk_crowd(thread);
    unsigned left = hk_heap_take(heap, cls, few, (unsigned)hk_max(slots / 2, 1));
    if (left == 0)
        return NULL;
    p = few[--left];
    while (left != 0 && put_on(shelves[thread->crowd][cls], slots, few[left - 1]))
        left--;
    if (left != 0)
        hk_heap_give(heap, cls, few, left);
    return p;
}

/* Where the shelf is full it goes to its slab, with half of what lies there. */
unsigned hk_crowd_give(hk_thread_t *thread, unsigned cls, void *p) {
    slot_t *shelf = shelves[thread->crowd][cls];
    const unsigned slots = slots_for(cls);
    if (put_on(shelf, slots, p))
        return 0;
    void *few[SLOTS] = {p};
    unsigned n = 1;
    while (n <= slots / 2 && (few[n] = take_from(shelf)) != NULL)
        n++;
    hk_heap_give(hk_crowd(thread), cls, few, n);
    return n;
}

void hk_crowds_clear(void) {
    void *few[SLOTS];
    for (unsigned i = 0; i < in_use(); i++)
        for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++) {
            unsigned n = 0;
            while (n < SLOTS && (few[n] = take_from(shelves[i][cls])) != NULL)
                n++;
            if (n != 0)
                hk_heap_give(&hk_crowds[i], cls, few, n);
        }
}

void hk_crowds_add_held(size_t blocks[HK_CLASS_COUNT]) {
    for (unsigned i = 0; i < in_use(); i++)
        for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
            for (unsigned slot = 0; slot < SLOTS; slot++)
                blocks[cls] += hk_load_relaxed(&shelves[i][cls][slot]) != NULL;
}
