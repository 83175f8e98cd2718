/* Heaps, and the remote-free protocol.
 *
 * A slab's owner, local bits and list links change only under the owning heap's lock. A thread that
 * the heap serves takes that lock at each visit. Any other thread only tries it, except a purge and
 * a measurement of what is resident (hk_heap_lock_owner()), which wait for it.
 *
 *   FREE      (remote)  old = remote[w] |= mask; old & mask: double free. Then, unless pending is
 *                       set already or another thread sets it first: ANNOUNCE.
 *   ANNOUNCE            push the slab on its owner's pending list. No owner: pending = 0; if it
 *                       has an owner after all and no other thread has set pending, announce again.
 *   COLLECT   (owner)   takes the whole list. For each slab: owned by another heap now: ANNOUNCE
 *                       again, keeping pending. Else pending = 0 and *then* take the remote bits.
 *   RETIRE    (owner)   all blocks are free in the local bits: owner = NULL, slices to the pool.
 *                       Carving the descriptor anew does not touch pending.
 *   ADOPT               with both heaps locked: unlink, set owner, *then* take the remote bits.
 *
 * Why this is safe. pending == 1 exactly while the slab is on one pending list or held by one
 * announcer or collector, and only that holder clears it or writes pending_next: so a slab is never
 * on two lists. A block whose bit is not set yet keeps its slab from retiring, so a freeing thread
 * touches the descriptor of a live slab until it has set the bit; what it does after that is
 * correct on any descriptor, and descriptors are never unmapped. "Set bit, read pending" against
 * "clear pending, take bits" is a Dekker pair, hence sequentially consistent: one of the two sees
 * the other, and no bit is forgotten.
 *
 * An orphan keeps its slabs (their owner stays the orphan). So the cost of a thread's end and start
 * does not depend on how many slabs it has, and remote frees go on as before: they queue up on the
 * orphan's pending list, and the thread that takes the heap over or adopts from it collects them.
 *
 * In a fork's child, a thread that was between FREE and the end of ANNOUNCE in the parent is
 * missing. No other thread runs there, so hk_heap_forked() rebuilds all pending lists from the
 * slabs that have remote bits. */
#include "backend/heap_own.h"
#include "backend/slab.h"
#include "base/report.h"
#include "stats/sections.h"

_Atomic(hk_heap_t *) hk_heap_all;
static atomic_uint heaps; /* length of that list */
_Atomic uint64_t hk_heap_sparse;
atomic_uint hk_heap_threads, hk_heap_orphans;
_Static_assert(HK_CLASS_COUNT <= 64, "a bit for each class");

void hk_heap_init(hk_heap_t *heap) {
    hk_assert(heap->all_next == NULL && heap->partial[1] == NULL);
    hk_assert(hk_load_relaxed(&heap->pending) == NULL && !hk_load_relaxed(&heap->orphan));
    heap->lock = (hk_lock_t)HK_LOCK_INIT(HK_RANK_HEAP);
    HK_PUSH(&hk_heap_all, heap->all_next, heap);
    hk_add_relaxed(&heaps, 1u);
}

void hk_heap_set_orphan(hk_heap_t *heap, bool orphan) {
    /* a repeated call would count the heap twice */
    hk_assert(hk_load_relaxed(&heap->orphan) != orphan);
    hk_store_release(&heap->orphan, orphan);
    hk_add_relaxed(&hk_heap_orphans, orphan ? 1u : -1u);
    hk_assert(hk_load_relaxed(&hk_heap_orphans) <= hk_load_relaxed(&heaps));
}

/* written in a fork's child before it has other threads */
static uint64_t of_parents[HK_HEAP_COUNT_COUNT];

static uint64_t counted_ever(hk_heap_counter_t counter) {
    const bool remote = counter == HK_HEAP_COUNT_remote_frees;
    uint64_t sum = remote ? hk_load_relaxed(&hk_heap_given_beside) : 0;
    for (hk_heap_t *heap = hk_load_acquire(&hk_heap_all); heap != NULL; heap = heap->all_next)
        sum += hk_load_relaxed(&heap->counts[counter]);
    return sum;
}

uint64_t hk_heap_counted(hk_heap_counter_t counter) {
    return counted_ever(counter) - of_parents[counter];
}

void hk_heap_counters_forked(void) {
    for (unsigned i = 0; i < HK_HEAP_COUNT_COUNT; i++)
        of_parents[i] = counted_ever(i);
}

void hk_heap_count_locked(hk_heap_t *heap, hk_heap_counter_t counter, unsigned n) {
    _Atomic uint64_t *count = &heap->counts[counter];
    hk_assert(hk_lock_is_mine(&heap->lock));
    hk_store_relaxed(count, hk_load_relaxed(count) + n);
}

/* ---- the list of a class ---- */

/* The slab is on its owner's ring, and its neighbours link back to it. */
static void is_listed(const hk_heap_t *heap, const hk_slab_t *slab, unsigned cls) {
    hk_assert(slab->listed && slab->cls == cls);
    hk_assert(hk_load_relaxed(&slab->owner) == heap);
    hk_assert(hk_load_relaxed(&slab->free) != 0);
    hk_assert(slab->next->prev == slab && slab->prev->next == slab);
}

/* Checks the list of a class: all of it if it is short or at every 64th call, else its first few
 * slabs and its last. The slab is on it if and only if it is marked as listed. */
static void list_is_valid(const hk_heap_t *heap, unsigned cls, const hk_slab_t *slab) {
    enum { FEW = 4, NOW_AND_THEN = 64 };
    static _Thread_local unsigned calls;
    const unsigned most = ++calls % NOW_AND_THEN == 0 ? UINT32_MAX : FEW;
    const hk_slab_t *head = heap->partial[cls], *at = head;
    bool found = false, whole = head == NULL;
    if (head != NULL)
        is_listed(heap, head->prev, cls);
    for (unsigned i = 0; i < most && !whole; i++) {
        is_listed(heap, at, cls);
        found |= at == slab;
        at = at->next;
        whole = at == head;
    }
    hk_assert(!whole || found == slab->listed);
}

/* The invariant of a heap's lists, as far as one slab shows it. The heap owns the slab. */
HK_WALKER static void is_valid(const hk_heap_t *heap, const hk_slab_t *slab) {
    hk_assert(hk_lock_is_mine(&heap->lock) && hk_load_relaxed(&slab->owner) == heap);
    hk_assert(slab->listed == (hk_load_relaxed(&slab->free) != 0));
    if (slab->listed)
        is_listed(heap, slab, slab->cls);
    list_is_valid(heap, slab->cls, slab);
}

/* A slab that gets its first free block goes to the end of the list: until its turn comes it
 * gathers more, so that a refill finds many blocks in few slabs (see choose()). In a sparse class,
 * where the fullest slabs are to serve, it goes to the front. */
static void link_slab(hk_heap_t *heap, hk_slab_t *slab) {
    hk_slab_t **list = &heap->partial[slab->cls];
    hk_assert(!slab->listed && hk_lock_is_mine(&heap->lock));
    hk_assert(hk_load_relaxed(&slab->owner) == heap);
    slab->listed = true;
    if (*list == NULL) {
        *list = slab->next = slab->prev = slab;
        return;
    }
    slab->next = *list;
    slab->prev = slab->next->prev;
    slab->next->prev = slab->prev->next = slab;
    if (HK_UNLIKELY(hk_heap_is_sparse(slab->cls)))
        *list = slab;
}

static void unlink_slab(hk_heap_t *heap, hk_slab_t *slab) {
    hk_slab_t **list = &heap->partial[slab->cls];
    hk_assert(slab->listed && hk_lock_is_mine(&heap->lock));
    hk_assert(hk_load_relaxed(&slab->owner) == heap);
    hk_assert(slab->next->prev == slab && slab->prev->next == slab);
    slab->listed = false;
    if (*list == slab)
        *list = slab->next != slab ? slab->next : NULL;
    slab->next->prev = slab->prev;
    slab->prev->next = slab->next;
}

/* ---- retiring ---- */

static void retire(hk_heap_t *heap, hk_slab_t *slab) {
    hk_assert(hk_load_relaxed(&slab->free) == hk_classes[slab->cls].blocks);
    unlink_slab(heap, slab);
    hk_store_seq(&slab->owner, NULL);
    slab->next = heap->retired;
    heap->retired = slab;
}

void hk_heap_leave(hk_heap_t *heap) {
    hk_slab_t *retired = heap->retired;
    heap->retired = NULL;
    hk_unlock(&heap->lock);
    hk_assert(hk_lock_may_take(HK_RANK_HEAP)); /* the pool may call the system */
    while (retired != NULL) {
        hk_slab_t *next = retired->next;
        hk_pool_give(retired);
        retired = next;
    }
}

static void note_empty(hk_heap_t *heap, unsigned cls) {
    hk_store_relaxed(&heap->empties, hk_load_relaxed(&heap->empties) | (uint64_t)1 << cls);
}

/* Retires an empty slab if the heap is an orphan or the class has another slab with free blocks. A
 * thread's heap keeps the last one of each class, for its next refill. */
void hk_heap_gained(hk_heap_t *heap, hk_slab_t *slab, unsigned n) {
    unsigned free = hk_load_relaxed(&slab->free) + n;
    hk_assert(n != 0 && free <= hk_classes[slab->cls].blocks);
    hk_store_relaxed(&slab->free, (uint16_t)free);
    hk_walk(hk_slab_is_valid(slab));
    if (!slab->listed)
        link_slab(heap, slab);
    hk_walk(is_valid(heap, slab));
    if (free != hk_classes[slab->cls].blocks)
        return;
    if (slab->next != slab || hk_load_relaxed(&heap->orphan))
        retire(heap, slab);
    else
        note_empty(heap, slab->cls);
}

/* ---- collecting remote frees ---- */

/* Moves the slab's remote bits into its local ones. The heap is locked and owns the slab. */
static void drain(hk_heap_t *heap, hk_slab_t *slab) {
    const hk_class_t *c = &hk_classes[slab->cls];
    _Atomic uint64_t *remote = hk_remote_bits(slab, c);
    unsigned words = hk_class_words(c), n = 0;
    hk_assert(hk_lock_is_mine(&heap->lock) && hk_load_relaxed(&slab->owner) == heap);
    for (unsigned w = 0; w < words; w++) {
        if (hk_load_seq(&remote[w]) == 0)
            continue;
        uint64_t bits = hk_exchange_seq(&remote[w], (uint64_t)0);
        uint64_t twice = bits & slab->bits[w];
        if (HK_UNLIKELY(twice != 0))
            hk_fatal(HK_DOUBLE_FREE,
                     slab->base + (w * 64 + (unsigned)__builtin_ctzll(twice)) * (size_t)c->size);
        hk_assert((w + 1) * 64 <= c->blocks || bits >> (c->blocks - w * 64) == 0);
        slab->bits[w] |= bits;
        slab->summary |= (uint64_t)1 << w;
        n += hk_ones(bits);
    }
    if (n != 0)
        hk_heap_gained(heap, slab, n);
}

static void collect_pending_locked(hk_heap_t *heap) {
    hk_slab_t *slab = hk_exchange_seq(&heap->pending, NULL);
    while (slab != NULL) {
        hk_assert(hk_load_relaxed(&hk_remote_of(slab)->pending) == 1);
        /* read before pending is cleared: after that another thread may write it */
        hk_slab_t *next = hk_remote_of(slab)->pending_next;
        if (hk_load_seq(&slab->owner) != heap) {
            hk_heap_announce(slab, true);
        } else {
            hk_store_seq(&hk_remote_of(slab)->pending, 0u);
            hk_heap_count_locked(heap, HK_HEAP_COUNT_collects, 1);
            drain(heap, slab);
        }
        slab = next;
    }
}

static void collect_locked(hk_heap_t *heap) {
    hk_assert(hk_lock_is_mine(&heap->lock));
    if (HK_UNLIKELY(hk_load_relaxed(&heap->pending) != NULL))
        HK_TIMED(collect, collect_pending_locked(heap));
}

/* ---- taking blocks ---- */

/* Takes one slab of the class from an orphan, with both heaps locked. (A new thread may have taken
 * the orphan over meanwhile, but it cannot use it before it is unlocked.) */
static bool adopt_from(hk_heap_t *heap, hk_heap_t *orphan, unsigned cls) {
    hk_assert(heap != orphan && hk_lock_is_mine(&heap->lock) && hk_lock_is_mine(&orphan->lock));
    collect_locked(orphan);
    while (orphan->retired != NULL) { /* hk_heap_leave() is called only for `heap` */
        hk_slab_t *empty = orphan->retired;
        orphan->retired = empty->next;
        empty->next = heap->retired;
        heap->retired = empty;
    }
    hk_slab_t *slab = orphan->partial[cls];
    if (slab == NULL)
        return false;
    unlink_slab(orphan, slab);
    hk_store_seq(&slab->owner, heap);
    hk_heap_count_locked(heap, HK_HEAP_COUNT_adoptions, 1);
    link_slab(heap, slab);
    if (hk_load_relaxed(&slab->free) == hk_classes[cls].blocks)
        note_empty(heap, cls);
    hk_walk(is_valid(heap, slab));
    drain(heap, slab);
    return true;
}

/* Searches a bounded number of orphans; one with remote frees to collect counts as several. The
 * next search goes on where this one ends. */
static bool adopt(hk_heap_t *heap, unsigned cls) {
    enum { MOST = 32, COLLECTS = 8, MOST_SEEN = 256 };
    static _Atomic(hk_heap_t *) cursor;
    if (hk_load_relaxed(&hk_heap_orphans) == 0)
        return false;
    bool found = false;
    hk_lock(&heap->lock);
    hk_heap_t *other = hk_load_relaxed(&cursor);
    for (unsigned seen = 0, work = 0; seen < MOST_SEEN && work < MOST && !found; seen++) {
        if (other == NULL)
            other = hk_load_acquire(&hk_heap_all);
        if (other != heap && hk_load_acquire(&other->orphan) && hk_lock_try(&other->lock)) {
            work += hk_load_relaxed(&other->pending) != NULL ? COLLECTS : 1;
            found = adopt_from(heap, other, cls);
            hk_unlock(&other->lock);
        }
        if (!found)
            other = other->all_next;
    }
    hk_store_relaxed(&cursor, other);
    hk_heap_leave(heap);
    return found;
}

hk_slab_t *hk_heap_take_slices(hk_heap_t *heap, unsigned slices, unsigned cls, unsigned align) {
    hk_stash_clear_own(&heap->stash);
    hk_slab_t *slab = hk_pool_take_mapped(slices, cls, align);
    if (slab == NULL) {
        hk_heap_collect_pending();
        slab = hk_pool_take(slices, cls, align);
    }
    return slab;
}

/* Gets the heap a slab with free blocks: an orphan's, or a new one. */
static HK_NOINLINE bool find_slab(hk_heap_t *heap, unsigned cls, size_t wanted) {
    if (adopt(heap, cls))
        return true;
    const unsigned slices = hk_classes[cls].slices;
    hk_slab_t *slab = hk_heap_take_slices(heap, slices, cls, 1);
    if (slab == NULL)
        return false;
    if (HK_UNLIKELY(hk_heap_is_sparse(cls)))
        hk_and_seq(&hk_heap_sparse, ~((uint64_t)1 << cls));
    hk_lock(&heap->lock);
    hk_store_seq(&slab->owner, heap);
    link_slab(heap, slab);
    /* another thread of a crowd's heap may use another slab, so that this one stays empty */
    note_empty(heap, cls);
    hk_walk(is_valid(heap, slab));
    heap->grown += hk_load_relaxed(&slab->clean) != 0 ? slices * HK_SLICE : 0;
    hk_unlock(&heap->lock);
    /* each heap in use may have one nearly empty slab; an orphan's would have been adopted */
    const size_t serving = hk_minus(hk_load_relaxed(&heaps), hk_load_relaxed(&hk_heap_orphans));
    const size_t begun = serving * slices * HK_SLICE;
    hk_class_note(cls, wanted, hk_minus(hk_pool_carved(cls), begun));
    return true;
}

/* The fullest of the first few slabs on the list, so that the others become empty. */
static hk_slab_t *choose(hk_slab_t *list) {
    enum { FEW = 8 };
    hk_slab_t *best = list;
    unsigned least = best != NULL ? hk_load_relaxed(&best->free) : 0, seen = 1;
    for (hk_slab_t *at = best; seen < FEW && best != NULL && at->next != list; seen++) {
        at = at->next;
        if (hk_load_relaxed(&at->free) < least) {
            least = hk_load_relaxed(&at->free);
            best = at;
        }
    }
    return best;
}

static HK_NOINLINE unsigned take(hk_heap_t *heap, unsigned cls, void **out, unsigned n,
                                 size_t wanted) {
    hk_assert(cls != 0 && cls < HK_CLASS_COUNT && n != 0);
    hk_assert(hk_lock_may_take(HK_RANK_HEAP));
    void **end = out + n;
    hk_lock(&heap->lock);
    hk_heap_count_locked(heap, HK_HEAP_COUNT_refills, 1);
    collect_locked(heap);
    while (end != out) {
        hk_slab_t *slab = choose(heap->partial[cls]);
        if (slab == NULL) {
            if (end != out + n)
                break;
            hk_heap_leave(heap);
            if (!HK_TIMED_VALUE(slab_new, find_slab(heap, cls, wanted)))
                return 0;
            hk_lock(&heap->lock);
            continue;
        }
        unsigned free = hk_load_relaxed(&slab->free);
        unsigned take = (unsigned)hk_min(free, (size_t)(end - out));
        if (take == free)
            unlink_slab(heap, slab);
        hk_slab_take(slab, end, take);
        hk_walk(is_valid(heap, slab));
        end -= take;
    }
    hk_heap_leave(heap);
    unsigned got = (unsigned)(out + n - end);
    if (end != out)
        for (unsigned i = 0; i < got; i++)
            out[i] = end[i];
    return got;
}

unsigned hk_heap_take_for(hk_heap_t *heap, unsigned cls, void **out, unsigned n, size_t wanted) {
    return HK_TIMED_VALUE(refill, take(heap, cls, out, n, wanted));
}

/* ---- collecting without taking ---- */

static void collect_and_leave(hk_heap_t *heap) {
    collect_locked(heap);
    uint64_t classes = hk_load_relaxed(&heap->empties);
    hk_store_relaxed(&heap->empties, (uint64_t)0);
    for (; classes != 0; classes &= classes - 1) {
        const unsigned cls = (unsigned)__builtin_ctzll(classes);
        hk_slab_t *slab = heap->partial[cls], *last = slab != NULL ? slab->prev : NULL;
        for (bool more = slab != NULL; more;) {
            hk_slab_t *next = slab->next;
            more = slab != last;
            if (hk_load_relaxed(&slab->free) == hk_classes[cls].blocks)
                retire(heap, slab);
            slab = next;
        }
    }
    hk_heap_leave(heap);
}

void hk_heap_collect(hk_heap_t *heap) {
    hk_lock(&heap->lock);
    collect_and_leave(heap);
    hk_stash_clear_own(&heap->stash);
}

/* True if the heap had something to collect or retire, and could be locked. */
static bool collect_other(hk_heap_t *heap, bool empties) {
    bool worth =
        hk_load_relaxed(&heap->pending) != NULL ||
        ((empties || hk_load_relaxed(&heap->orphan)) && hk_load_relaxed(&heap->empties) != 0);
    if (!worth || !hk_lock_try(&heap->lock))
        return false;
    collect_and_leave(heap);
    return true;
}

void hk_heap_collect_all(bool empties, void (*visit)(hk_stash_t *stash)) {
    hk_assert(hk_lock_may_take(HK_RANK_HEAP)); /* it only tries each heap's lock */
    for (hk_heap_t *heap = hk_load_acquire(&hk_heap_all); heap != NULL; heap = heap->all_next) {
        collect_other(heap, empties);
        visit(&heap->stash);
    }
}

void hk_heap_collect_pending(void) {
    enum { MOST_SEEN = 256, VISITS = 64 };
    static _Atomic(hk_heap_t *) cursor; /* atomic: any thread; NULL: the first */
    hk_assert(hk_lock_may_take(HK_RANK_HEAP));
    hk_heap_t *heap = hk_load_relaxed(&cursor);
    const unsigned most = (unsigned)hk_min(MOST_SEEN, hk_load_relaxed(&heaps));
    for (unsigned seen = 0, visits = 0; seen < most && visits < VISITS; seen++) {
        if (heap == NULL)
            heap = hk_load_acquire(&hk_heap_all);
        visits += collect_other(heap, false);
        heap = heap->all_next;
    }
    hk_store_relaxed(&cursor, heap);
}

/* ---- purging ---- */

hk_heap_t *hk_heap_lock_owner(const hk_slab_t *slab) {
    for (;;) {
        hk_heap_t *owner = hk_load_seq(&slab->owner);
        if (owner == NULL)
            return NULL;
        hk_lock(&owner->lock);
        if (hk_load_seq(&slab->owner) == owner)
            return owner;
        hk_unlock(&owner->lock);
    }
}

uint64_t hk_heap_claim(hk_slab_t *slab, hk_claim_t which, bool *seen) {
    hk_heap_t *owner = hk_heap_lock_owner(slab);
    if (owner == NULL)
        return 0;
    uint64_t pages = 0;
    if (hk_slab_dirty_bytes(slab) >= hk_os_page_size() ||
        (which == HK_CLAIM_LAZY_TOO && hk_load_relaxed(&slab->lazy) != 0))
        pages = hk_slab_claim(slab, which);
    if (slab->listed && hk_load_relaxed(&slab->free) == 0)
        unlink_slab(owner, slab);
    if (pages != 0)
        hk_walk(is_valid(owner, slab));
    *seen |= slab->seen != 0;
    hk_unlock(&owner->lock);
    return pages;
}

/* A slab with claimed blocks is not empty, so it has an owner, though it may be another one than
 * when the pages were claimed. */
void hk_heap_unclaim(hk_slab_t *slab, uint64_t pages, uint64_t purged, bool lazily) {
    hk_heap_t *owner = hk_heap_lock_owner(slab);
    hk_assert(owner != NULL);
    hk_heap_gained(owner, slab, hk_slab_unclaim(slab, pages, purged, lazily));
    hk_heap_leave(owner);
}
