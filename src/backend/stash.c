#include "backend/heap.h"

enum { SLICES = HK_SLICES - 1 }; /* mask of the bits that hold slices less one */
_Static_assert(_Alignof(hk_slab_t) > SLICES, "a descriptor's address has room for them");

static unsigned slices_of(uintptr_t entry) {
    return entry != 0 ? (unsigned)(entry & SLICES) + 1 : 0;
}

static uintptr_t entry_of(const hk_slab_t *run) { return (uintptr_t)run | (run->slices - 1u); }

static hk_slab_t *run_of(uintptr_t entry) {
    hk_slab_t *run = (hk_slab_t *)(entry & ~(uintptr_t)SLICES);
    hk_assert(run->cls == 0 && run->slices == slices_of(entry));
    hk_assert(hk_map_kind(run->base) == HK_KIND_FREE);
    return run;
}

/* How many slices may lie here together with a new run. With one thread: this run alone, if it is
 * as long as the latest request; the pool finds better fits for others. With more: as many as each
 * thread has in large blocks on average, so that no thread keeps any where few of many use such
 * blocks. A thread that frees runs and takes none mostly frees for another thread, which would wait
 * for each cache line that this processor still holds: so, while threads are few, runs lie here
 * until it has evicted them. */
static unsigned room_with(const hk_stash_t *stash, unsigned slices) {
    enum { MOST = 16, LONGEST = 8, FEW_THREADS = 6, COOLING = 32, ALL_COOLING = 3 * COOLING };
    const unsigned threads = hk_load_relaxed(&hk_heap_threads);
    if (slices > LONGEST)
        return 0;
    if (threads <= 1)
        return slices == stash->wanted ? slices : 0;
    if (stash->unasked == HK_STASH_RUNS && threads <= FEW_THREADS)
        return (unsigned)hk_min(ALL_COOLING / threads, COOLING);
    return (unsigned)hk_min(hk_pool_carved(0) / HK_SLICE / threads, MOST);
}

static size_t give(uintptr_t entry) { return entry != 0 ? hk_pool_give(run_of(entry)) : 0; }

static uintptr_t remove_from(hk_stash_t *stash, unsigned place) {
    _Atomic uintptr_t *at = &stash->runs[place];
    return hk_load_relaxed(at) != 0 ? hk_exchange_seq(at, (uintptr_t)0) : 0;
}

/* Takes the latest first: its memory is most likely in the processor's caches. */
hk_slab_t *hk_stash_take(hk_stash_t *stash, unsigned slices) {
    stash->wanted = (uint8_t)slices;
    stash->unasked = 0;
    if (stash->held < slices)
        return NULL;
    for (unsigned i = 1, left = stash->held; i <= HK_STASH_RUNS && left != 0; i++) {
        const unsigned place = (stash->next + HK_STASH_RUNS - i) % HK_STASH_RUNS;
        const unsigned found = slices_of(hk_load_relaxed(&stash->runs[place]));
        left -= found;
        if (found != slices)
            continue;
        const uintptr_t entry = remove_from(stash, place);
        if (entry == 0)
            continue; /* another thread has just cleared it */
        if (i == 1)
            stash->next = (uint8_t)place;
        stash->held = (uint8_t)(stash->held - slices);
        return run_of(entry);
    }
    return NULL;
}

/* Gives the oldest runs to the pool until at most `left` slices remain and the next place is free.
 * Returns the bytes given. */
static HK_NOINLINE size_t make_room(hk_stash_t *stash, unsigned left) {
    size_t bytes = 0;
    unsigned held = 0;
    for (unsigned i = 0; i < HK_STASH_RUNS; i++)
        held += slices_of(hk_load_relaxed(&stash->runs[i]));
    for (unsigned i = 0; i < HK_STASH_RUNS && (i == 0 || held > left); i++) {
        const uintptr_t oldest = remove_from(stash, (stash->next + i) % HK_STASH_RUNS);
        held -= slices_of(oldest);
        bytes += give(oldest);
    }
    stash->held = (uint8_t)held;
    return bytes;
}

size_t hk_stash_put(hk_stash_t *stash, hk_slab_t *run) {
    if (stash->unasked < HK_STASH_RUNS)
        stash->unasked++;
    const unsigned slices = run->slices, most = room_with(stash, slices);
    size_t bytes = 0;
    if (slices > most)
        return hk_pool_give(run);
    if (stash->held + slices > most || hk_load_relaxed(&stash->runs[stash->next]) != 0)
        bytes = make_room(stash, most - slices);
    run->zeroed = false;
    hk_store_release(&stash->runs[stash->next], entry_of(run));
    stash->next = (uint8_t)((stash->next + 1) % HK_STASH_RUNS);
    stash->held = (uint8_t)(stash->held + slices);
    if (hk_load_relaxed(&stash->used))
        return bytes;
    hk_store_relaxed(&stash->used, true);
    return bytes + slices * HK_SLICE;
}

void hk_stash_clear(hk_stash_t *stash) {
    for (unsigned i = 0; i < HK_STASH_RUNS; i++)
        give(remove_from(stash, i));
}

void hk_stash_look(hk_stash_t *stash) {
    if (hk_load_relaxed(&stash->used))
        hk_store_relaxed(&stash->used, false);
    else
        hk_stash_clear(stash);
}
