#include "front/crowd.h"

#include "backend/meta.h"
#include "config/config.h"
#include "os/os.h"
#include "policy/look.h"

/* Where very many threads have less than LITTLE_EACH on average, and are more than MANY_EACH for
 * each processor, so that few can be busy at once, all are of the crowd. */
#define LITTLE_EACH HK_MIB
enum { MANY_EACH = 2 };

/* A shelf holds at most SLOTS blocks and SHELF_BYTES, and no block above LARGEST. */
enum { SLOTS = HK_HOSTILE ? 2 : 31 };
#define SHELF_BYTES (16 * HK_KIB)
#define LARGEST (4 * HK_KIB)

/* Freed blocks that wait for the next thread. The slots alone are the truth; `full` is a hint that
 * the first so many of them hold a block, and a thread that has read it may act when others have
 * changed both. */
typedef struct {
    atomic_ushort full, room;    /* atomic: any thread; slots; `room` as of the last visit */
    atomic_bool used;            /* atomic: any thread; a thread has visited since it was cleared */
    _Atomic(void *) slot[SLOTS]; /* atomic: any thread; a block, or NULL */
} shelf_t;

/* Processors whose numbers differ by a multiple of PROCESSORS share shelves; a thread asks where it
 * is once in TURNS uses. */
enum { PROCESSORS = 256, TURNS = 16 };

/* Class 0 has no shelf: its `used` says whether any other is used. */
struct hk_shelves {
    shelf_t of[HK_CLASS_COUNT];
};

hk_heap_t hk_crowds[HK_CROWDS];
atomic_uint hk_crowds_idle;

static _Atomic(hk_shelves_t *) shelves[PROCESSORS]; /* atomic: const once set, by any thread */
static atomic_uint processors; /* atomic: any thread; how many processors have shelves */
static atomic_uint more;       /* atomic: any thread; shared heaps in use, less one */
static atomic_bool gathered;   /* atomic: written under the registry lock; heaps initialised */
static atomic_bool stocked;    /* atomic: any thread; blocks may still lie on shelves */

/* The heaps are initialised when there are many threads for the first time: most processes never
 * touch these pages. Once threads are few again, the heaps are orphans, whose slabs any thread may
 * adopt. */
HK_COLD void hk_crowds_gather_locked(bool many) {
    const bool before = hk_load_relaxed(&gathered);
    for (unsigned i = 0; i < HK_CROWDS && !before; i++)
        hk_heap_init(&hk_crowds[i]);
    for (unsigned i = 0; i < HK_CROWDS && before; i++)
        hk_heap_set_orphan(&hk_crowds[i], !many);
    hk_store_relaxed(&hk_crowds_idle, many ? 0u : (unsigned)HK_CROWDS);
    if (many)
        hk_store_relaxed(&stocked, true);
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

/* ---- who is of the crowd ---- */

/* One of many threads does, unless its record has served several and threads are not very many:
 * where threads come and go, each would cross the boundary for nearly every block. */
bool hk_crowd_begins(const hk_thread_t *thread) {
    return hk_threads_are_many() &&
           (hk_threads_are_very_many() || !hk_thread_comes_and_goes(thread));
}

/* Never where HAKMEM_TCACHE_KB is set. */
bool hk_crowd_calls(void) {
    const size_t threads = hk_load_relaxed(&hk_heap_threads);
    return hk_threads_are_very_many() && hk_option_origin(tcache_kb) == HK_FROM_DEFAULT &&
           threads > (size_t)MANY_EACH * hk_load_relaxed(&processors) &&
           hk_look_in_use() / threads < LITTLE_EACH;
}

/* After HK_CROWD_VISITS operations a thread is busy in the class and leaves, unless all are of the
 * crowd. Under a guard, where each visit takes a lock, it leaves in any case. */
bool hk_crowd_stays(hk_magazine_t *magazine) {
    if (++magazine->crowd_visits == 0)
        magazine->crowd = !hk_guarded() && hk_crowd_calls();
    return magazine->crowd;
}

void hk_crowd_leave(hk_thread_t *thread) {
    if (!hk_load_relaxed(&gathered) || hk_guarded())
        return;
    for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
        thread->magazines[cls].crowd = false;
}

/* ---- shelves ---- */

/* The shelves of the processor that the thread was on a moment ago; NULL: not made yet. */
HK_INLINE hk_shelves_t *at_hand(hk_thread_t *thread) {
    if (HK_UNLIKELY(thread->turns++ % TURNS == 0))
        thread->shelves = hk_load_acquire(&shelves[(unsigned)hk_os_cpu() % PROCESSORS]);
    return thread->shelves;
}

/* The same, made if need be. Threads may race to create them; each loser's copy is leaked, once per
 * processor. NULL: out of memory. */
static hk_shelves_t *at_hand_for_certain(hk_thread_t *thread) {
    if (HK_LIKELY(at_hand(thread) != NULL))
        return thread->shelves;
    _Atomic(hk_shelves_t *) *place = &shelves[(unsigned)hk_os_cpu() % PROCESSORS];
    hk_shelves_t *there = hk_load_acquire(place), *made;
    if (there == NULL && (made = hk_meta_alloc(sizeof *made)) != NULL &&
        hk_cas_seq(place, &there, made)) {
        hk_add_relaxed(&processors, 1u);
        there = made;
    }
    return thread->shelves = there;
}

static void set_used(shelf_t *shelf) {
    if (!hk_load_seq(&shelf->used))
        hk_store_seq(&shelf->used, true);
}

/* The class's shelf at hand, and how many blocks it has room for from now on; NULL, and none: its
 * blocks are too large, or there is no memory. The shelf is marked as used after it has room, and
 * cleared in the opposite order: otherwise a thread that clears it in between would leave room on a
 * shelf that is passed over from then on. */
static shelf_t *shelf_for(hk_thread_t *thread, unsigned cls, unsigned *slots) {
    hk_shelves_t *own = at_hand_for_certain(thread);
    const size_t size = hk_classes[cls].size;
    *slots = 0;
    if (own == NULL || size > LARGEST)
        return NULL;
    shelf_t *shelf = &own->of[cls];
    if (!hk_heap_is_sparse(cls))
        *slots = (unsigned)hk_min(SHELF_BYTES / size, SLOTS);
    if (hk_load_relaxed(&shelf->room) != *slots)
        hk_store_seq(&shelf->room, (unsigned short)*slots);
    set_used(shelf);
    set_used(&own->of[0]);
    return shelf;
}

HK_INLINE void *take_from(shelf_t *shelf) {
    const unsigned full = hk_load_relaxed(&shelf->full);
    void *p = full != 0 ? hk_exchange_acquire(&shelf->slot[full - 1], NULL) : NULL;
    if (HK_LIKELY(p != NULL))
        hk_store_relaxed(&shelf->full, (unsigned short)(full - 1));
    return p;
}

HK_INLINE bool put_on(shelf_t *shelf, void *p) {
    const unsigned full = hk_load_relaxed(&shelf->full);
    void *none = NULL;
    if (HK_UNLIKELY(full >= hk_load_relaxed(&shelf->room)) ||
        !hk_cas_seq(&shelf->slot[full], &none, p))
        return false;
    hk_store_relaxed(&shelf->full, (unsigned short)(full + 1));
    return true;
}

/* Whether the operation goes to the boundary: the thread is not of the crowd, or decides there
 * whether it stays. */
HK_INLINE bool is_due(hk_magazine_t *magazine) {
    if (!magazine->crowd || magazine->crowd_visits == HK_CROWD_VISITS - 1)
        return true;
    magazine->crowd_visits++;
    return false;
}

void *hk_crowd_pop(size_t n) {
    hk_thread_t *thread = hk_load_relaxed(&hk_tc)->thread;
    if (HK_UNLIKELY(thread == NULL || n > HK_MID_MAX))
        return NULL;
    const unsigned cls = hk_class_of(n);
    hk_shelves_t *own = is_due(&thread->magazines[cls]) ? NULL : at_hand(thread);
    return HK_LIKELY(own != NULL) ? take_from(&own->of[cls]) : NULL;
}

bool hk_crowd_push(void *p) {
    hk_tcache_t *tc = hk_load_relaxed(&hk_tc);
    const unsigned cls = (unsigned)hk_hit_kind(tc, p);
    if (HK_UNLIKELY(!hk_kind_is_class(cls)) || is_due(&tc->thread->magazines[cls]))
        return false;
    hk_shelves_t *own = at_hand(tc->thread);
    return HK_LIKELY(own != NULL) && put_on(&own->of[cls], p);
}

/* Takes up to `most` blocks off the shelf, whatever the hint says, and corrects the hint: a thread
 * that was stopped before it stored that may have left it pointing at slots that others emptied
 * meanwhile. Returns how many. */
static unsigned empty(shelf_t *shelf, void **blocks, unsigned most) {
    unsigned n = 0, i = SLOTS;
    while (i != 0 && n < most)
        if (hk_load_relaxed(&shelf->slot[--i]) != NULL &&
            (blocks[n] = hk_exchange_acquire(&shelf->slot[i], NULL)) != NULL)
            n++;
    if (hk_load_relaxed(&shelf->full) != i)
        hk_store_relaxed(&shelf->full, (unsigned short)i);
    return n;
}

/* Where the shelf is empty, half of one is fetched. */
void *hk_crowd_take(hk_thread_t *thread, unsigned cls, unsigned *moved) {
    void *few[SLOTS];
    unsigned slots;
    shelf_t *shelf = shelf_for(thread, cls, &slots);
    *moved = 0;
    if (shelf != NULL && empty(shelf, few, 1) != 0)
        return few[0];
    hk_heap_t *heap = hk_crowd(thread);
    const unsigned most = (unsigned)hk_max(slots / 2, 1);
    unsigned left = *moved = hk_heap_take_for(heap, cls, few, most, thread->heap.wanted);
    void *p = left != 0 ? few[--left] : NULL;
    while (left != 0 && put_on(shelf, few[left - 1]))
        left--;
    if (left != 0)
        hk_heap_give(heap, cls, few, left);
    return p;
}

/* Where the shelf is full p goes to its slab, with half of what lies there; with all where the
 * shelf is to hold none. */
unsigned hk_crowd_give(hk_thread_t *thread, unsigned cls, void *p) {
    void *few[1 + SLOTS] = {p};
    unsigned slots;
    shelf_t *shelf = shelf_for(thread, cls, &slots);
    if (shelf != NULL && put_on(shelf, p))
        return 0;
    const unsigned most = slots != 0 ? (slots + 1) / 2 : SLOTS;
    const unsigned n = 1 + (shelf != NULL ? empty(shelf, few + 1, most) : 0);
    hk_heap_give(hk_crowd(thread), cls, few, n);
    return n;
}

/* The shelf has no room until a thread comes to the boundary. A thread that was stopped inside
 * put_on() leaves at most one block behind, until the shelf is used again. */
static void clear(shelf_t *shelf, unsigned cls) {
    void *few[SLOTS];
    hk_store_seq(&shelf->room, (unsigned short)0);
    const unsigned n = empty(shelf, few, SLOTS);
    if (n != 0)
        hk_heap_give(&hk_crowds[0], cls, few, n);
}

/* Shelves that no thread has used are passed over: with each thread that comes and goes, threads
 * may be many and few again. */
void hk_crowds_clear(void) {
    for (unsigned i = 0; i < PROCESSORS; i++) {
        hk_shelves_t *all = hk_load_acquire(&shelves[i]);
        if (all == NULL || !hk_exchange_seq(&all->of[0].used, false))
            continue;
        for (unsigned cls = 1; cls < HK_CLASS_COUNT; cls++)
            if (hk_load_seq(&all->of[cls].used) && hk_exchange_seq(&all->of[cls].used, false))
                clear(&all->of[cls], cls);
    }
}

void hk_crowds_clear_of_few(size_t threads) {
    if (HK_UNLIKELY(hk_load_relaxed(&stocked)) && threads <= HK_MANY_THREADS * 3 / 4 &&
        hk_exchange_acquire(&stocked, false))
        hk_crowds_clear();
}

void hk_crowds_add_held(size_t blocks[HK_CLASS_COUNT]) {
    for (unsigned i = 0; i < PROCESSORS; i++) {
        hk_shelves_t *all = hk_load_acquire(&shelves[i]);
        for (unsigned cls = 1; all != NULL && cls < HK_CLASS_COUNT; cls++)
            for (unsigned slot = 0; slot < SLOTS; slot++)
                blocks[cls] += hk_load_relaxed(&all->of[cls].slot[slot]) != NULL;
    }
}
