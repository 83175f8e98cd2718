/* The pool: which slices are free, and how runs of them become slabs and large blocks. */
#include "backend/slab.h"
#include "backend/superslab_own.h"
#include "base/counters.h"
#include "base/report.h"

hk_lock_t hk_pool_lock = HK_LOCK_INIT(HK_RANK_POOL);
static hk_lock_t adding = HK_LOCK_INIT(HK_RANK_ADDING);
/* Superslabs with free slices are in lists by the length of their longest free run: the first list
 * that is long enough and not empty serves a request without a search. */
static hk_superslab_t *lists[HK_SLICES + 1]; /* lock: pool; [n]: the longest free run is n slices */
static uint64_t not_empty;                   /* lock: pool; bit n: lists[n] is not empty */
_Atomic uint64_t hk_pool_retaken;            /* atomic: any thread */
/* slices of each class's slabs, [0]: of large runs; written under the lock, read by any thread */
static _Atomic size_t in_slabs[HK_CLASS_COUNT];

/* Bit i of the result: slices i .. i+n-1 are all free. */
static uint32_t run_starts(uint32_t free, unsigned n) {
    for (unsigned have = 1, more; have < n; have += more) {
        more = have < n - have ? have : n - have;
        free &= free >> more;
    }
    return free;
}

/* Finds where runs of 1, 2, 4, 8 and 16 free slices start, then joins the largest of these that lie
 * one behind the other. */
static unsigned longest_run(uint32_t free) {
    if (free == UINT32_MAX)
        return HK_SLICES;
    const uint32_t two = free & free >> 1, four = two & two >> 2, eight = four & four >> 4;
    const uint32_t starts[] = {free, two, four, eight, eight & eight >> 8};
    uint32_t at = UINT32_MAX;
    unsigned n = 0;
    for (unsigned i = 5; i-- != 0;)
        if ((at & starts[i] >> n) != 0) {
            at &= starts[i] >> n;
            n += 1u << i;
        }
    return n;
}

/* ---- invariants ---- */

/* Checks the slab or large run that starts at slice `first`; returns the slices it takes. */
static uint32_t run_is_valid_locked(const hk_superslab_t *ss, unsigned first) {
    const hk_slab_t *slab = &ss->slabs[first];
    hk_assert(slab->first == first && slab->base == ss->base + first * HK_SLICE);
    hk_assert(slab->slices >= 1 && first + slab->slices <= HK_SLICES);
    hk_assert(slab->cls < HK_CLASS_COUNT);
    hk_assert(slab->cls == 0 || slab->slices == hk_classes[slab->cls].slices);
    for (unsigned i = first; i < first + slab->slices; i++)
        hk_assert(ss->head[i] == first);
    return hk_slice_mask(first, slab->slices);
}

/* It is on the list for its longest run, and its neighbours there link back to it. */
static void is_listed_locked(const hk_superslab_t *ss) {
    hk_assert(ss->list == longest_run(ss->free));
    if (ss->list == 0)
        return;
    hk_assert((not_empty >> ss->list & 1) && *ss->link == ss);
    hk_assert(ss->next == NULL || (ss->next->link == &ss->next && ss->next->list == ss->list));
}

/* Checks the totals, and that each superslab is on the right list. */
static void pool_is_valid_locked(void) {
    size_t bytes = 0, listed = 0;
    for (hk_superslab_t *ss = NULL; (ss = hk_superslab_next_locked(ss)) != NULL;) {
        is_listed_locked(ss);
        bytes += hk_superslab_bytes(ss);
        listed += ss->list != 0;
    }
    hk_assert(bytes == hk_pool_mapped());
    for (unsigned n = 0; n <= HK_SLICES; n++) {
        hk_assert((lists[n] != NULL) == (not_empty >> n & 1));
        for (const hk_superslab_t *ss = lists[n]; ss != NULL; ss = ss->next, listed--)
            hk_assert(ss->list == n && listed != 0);
    }
    hk_assert(listed == 0);
}

/* Checks a superslab that has just changed, and the whole pool at every 32nd call. */
HK_WALKER static void is_valid_locked(const hk_superslab_t *ss) {
    enum { NOW_AND_THEN = 32 };
    static unsigned calls; /* lock: pool */
    hk_assert(hk_lock_is_mine(&hk_pool_lock));
    const uint32_t not_carved = ss->free | ss->claimed;
    hk_assert((ss->free & ss->claimed) == 0);
    hk_assert(ss->base != NULL || not_carved == 0);
    hk_assert((not_carved & ~ss->whole) == 0 && (ss->whole & ss->holes) == 0);
    hk_assert(((ss->fresh | ss->lazy | ss->seen | ss->purged) & ~ss->free) == 0);
    hk_assert((ss->wiped & ~not_carved) == 0);
    hk_assert((ss->fresh & ss->lazy) == 0 && (ss->seen & (ss->fresh | ss->lazy)) == 0);
    hk_assert((ss->holey & ~(hk_superslab_dirty(ss) | ss->claimed)) == 0);
    for (unsigned i = 0; i < HK_SLICES; i++)
        hk_assert((ss->gone[i] != 0) == (ss->holey >> i & 1));
    uint32_t carved = ss->base != NULL ? ss->whole & ~not_carved : 0;
    while (carved != 0) {
        uint32_t run = run_is_valid_locked(ss, (unsigned)__builtin_ctz(carved));
        hk_assert((run & ~carved) == 0); /* no two share a slice, and none is free */
        carved &= ~run;
    }
    is_listed_locked(ss);
    if (++calls % NOW_AND_THEN == 0)
        pool_is_valid_locked();
}

/* No block of the slab is handed out, so none can have been freed remotely. (A bit here that is no
 * double free means that a collection lost it.) */
HK_WALKER static void no_remote_frees(const hk_slab_t *slab) {
    const hk_class_t *c = &hk_classes[slab->cls];
    for (unsigned w = 0; w < hk_class_words(c); w++)
        hk_assert(hk_load_relaxed(&hk_remote_bits(slab, c)[w]) == 0);
}

/* ---- slices ---- */

void hk_pool_relist_locked(hk_superslab_t *ss) {
    const unsigned list = longest_run(ss->free);
    hk_assert(hk_lock_is_mine(&hk_pool_lock));
    if (list != ss->list) {
        if (ss->list != 0) {
            *ss->link = ss->next;
            if (ss->next != NULL)
                ss->next->link = ss->link;
            not_empty &= ~((uint64_t)(lists[ss->list] == NULL) << ss->list);
        }
        ss->list = (uint8_t)list;
        if (list != 0) {
            ss->link = &lists[list];
            ss->next = lists[list];
            if (ss->next != NULL)
                ss->next->link = &ss->next;
            lists[list] = ss;
            not_empty |= (uint64_t)1 << list;
        }
    }
    hk_walk(is_valid_locked(ss));
}

HK_COLD size_t hk_superslab_gone(const hk_superslab_t *ss, uint32_t slices) {
    size_t pages = 0;
    for (uint32_t left = ss->holey & slices; left != 0; left &= left - 1)
        pages += hk_ones(ss->gone[__builtin_ctz(left)]);
    return pages * hk_os_page_size();
}

HK_COLD void hk_superslab_forget_gone_locked(hk_superslab_t *ss, uint32_t slices) {
    for (uint32_t left = ss->holey & slices; left != 0; left &= left - 1)
        ss->gone[__builtin_ctz(left)] = 0;
    ss->holey &= ~slices;
}

/* Called when slices with pages without memory are taken. A large run counts as bringing them in at
 * once; a slab's marks know them, and its blocks bring them in as they are handed out. */
static HK_COLD void use_holey_locked(hk_superslab_t *ss, uint32_t slices, bool large) {
    if (large) {
        const size_t bytes = hk_superslab_gone(ss, slices);
        hk_count(touched, bytes);
        hk_add_relaxed(&hk_pool_retaken, bytes);
    }
    hk_superslab_forget_gone_locked(ss, slices);
}

/* Takes `slices` free slices from `first` on for the run that begins at slice `head`. */
static void use_locked(hk_superslab_t *ss, unsigned head, unsigned first, unsigned slices) {
    const uint32_t mask = hk_slice_mask(first, slices);
    hk_assert((ss->free & mask) == mask);
    hk_slab_t *slab = &ss->slabs[head];
    if (slab->cls == 0)
        hk_count(touched, (uint64_t)hk_ones(ss->fresh & mask) * HK_SLICE);
    if (HK_UNLIKELY((ss->holey & mask) != 0))
        use_holey_locked(ss, mask, slab->cls == 0);
    for (unsigned i = first; i < first + slices; i++)
        ss->head[i] = (uint8_t)head;
    slab->slices = (uint8_t)(first + slices - head);
    hk_store_relaxed(&in_slabs[slab->cls], hk_load_relaxed(&in_slabs[slab->cls]) + slices);
    ss->free &= ~mask;
    ss->fresh &= ~mask;
    ss->lazy &= ~mask;
    ss->seen &= ~mask;
    ss->wiped &= ~mask;
    if (slab->cls == 0 && (ss->purged & mask) != 0)
        hk_add_relaxed(&hk_pool_retaken, (uint64_t)hk_ones(ss->purged & mask) * HK_SLICE);
    ss->purged &= ~mask;
    hk_pool_relist_locked(ss);
}

/* Notes pages of freed slices that have no memory. Otherwise they would be purged again, and their
 * next use would not count as memory brought in. */
static HK_COLD void note_gone_locked(hk_superslab_t *ss, unsigned first, unsigned slices,
                                     uint64_t pages) {
    const unsigned per_slice = (unsigned)(HK_SLICE / hk_os_page_size());
    for (unsigned i = first; i < first + slices && pages != 0; i++, pages >>= per_slice) {
        const uint64_t gone = pages & hk_bits(0, per_slice);
        const uint32_t slice = hk_slice_mask(i, 1);
        if (hk_ones(gone) == per_slice) {
            ss->fresh |= slice;
            ss->purged |= slice;
        } else if (gone != 0) {
            ss->gone[i] = (uint16_t)gone;
            ss->holey |= slice;
        }
    }
}

/* The same for a large run's tail. */
static HK_COLD void note_tail_locked(const hk_slab_t *run) {
    const size_t page = hk_os_page_size(), bytes = hk_tail_bytes(hk_load_relaxed(&run->free));
    const uint64_t pages = hk_bits((unsigned)((HK_SLICE - bytes) / page), (unsigned)(bytes / page));
    note_gone_locked(hk_superslab_of(run), run->first + run->slices - 1u, 1, pages);
}

/* Puts the slices of a run of class `cls` back; `gone`: its pages without memory. If the superslab
 * is now wholly free and another one is too, its memory is detached and returned: one is kept so
 * that a slab that comes and goes does not take the superslab with it. */
static hk_range_t put_back_locked(hk_superslab_t *ss, unsigned first, unsigned slices, unsigned cls,
                                  uint64_t gone, bool wiped) {
    const uint32_t mask = hk_slice_mask(first, slices);
    /* one thread freed a large block while another one cut it short */
    if (HK_UNLIKELY((ss->free & mask) != 0))
        hk_fatal(HK_DOUBLE_FREE, ss->base + first * HK_SLICE);
    hk_store_relaxed(&in_slabs[cls], hk_load_relaxed(&in_slabs[cls]) - slices);
    ss->free |= mask;
    if (wiped)
        ss->wiped |= mask;
    if (HK_UNLIKELY(gone != 0))
        note_gone_locked(ss, first, slices, gone);
    hk_range_t range = {0};
    if (ss->free == ss->whole && (ss->whole != UINT32_MAX || lists[HK_SLICES] != NULL))
        range = hk_superslab_detach_locked(ss);
    if (range.bytes == 0)
        hk_pool_relist_locked(ss);
    return range;
}

/* ---- taking ---- */

/* Each slice whose number is a multiple of `align`, a power of two. */
static uint32_t aligned(unsigned align) {
    return HK_LIKELY(align == 1) ? UINT32_MAX : UINT32_MAX / ((1u << align) - 1);
}

/* Slices that have memory come first. */
HK_INLINE hk_slab_t *take_from_locked(hk_superslab_t *ss, unsigned slices, unsigned cls,
                                      unsigned align) {
    uint32_t starts = run_starts(hk_superslab_dirty(ss), slices) & aligned(align);
    if (starts == 0)
        starts = run_starts(ss->free, slices) & aligned(align);
    hk_assert(starts != 0);
    const unsigned first = (unsigned)__builtin_ctz(starts);
    const uint32_t mask = hk_slice_mask(first, slices);
    const hk_class_t *c = &hk_classes[cls];
    hk_slab_t *slab = &ss->slabs[first];
    /* the run that was here before has been given back */
    hk_assert(hk_load_relaxed(&slab->owner) == NULL);
    slab->zeroed = ((ss->fresh | (cls != 0 ? ss->wiped : 0)) & mask) == mask;
    slab->base = ss->base + first * HK_SLICE;
    slab->first = (uint8_t)first;
    slab->slices = (uint8_t)slices;
    slab->cls = (uint8_t)cls;
    hk_store_relaxed(&slab->free, c->blocks);
    if (cls != 0)
        hk_slab_mark_slices(slab, ss->fresh >> first, ss->lazy >> first, ss->purged >> first,
                            &ss->gone[first]);
    use_locked(ss, first, first, slices);
    return slab;
}

/* From the superslab whose longest run is the shortest that is long enough. A slab, or a single
 * slice, prefers a superslab that has memory for it, of the first on each list; for longer runs
 * that would cause more fragmentation than it saves. */
static HK_NOINLINE hk_slab_t *take_locked(unsigned slices, unsigned cls, unsigned align) {
    const bool warm = cls != 0 || (slices == 1 && align == 1);
    hk_superslab_t *best = NULL;
    for (uint64_t left = not_empty >> slices << slices; left != 0; left &= left - 1) {
        hk_superslab_t *ss = lists[__builtin_ctzll(left)];
        const uint32_t in = warm ? hk_superslab_dirty(ss) : ss->free;
        const bool any = !warm && align == 1;
        const bool fits = any || (run_starts(in, slices) & aligned(align)) != 0;
        if (fits || (best == NULL && warm))
            best = ss;
        if (fits)
            break;
    }
    return best != NULL ? take_from_locked(best, slices, cls, align) : NULL;
}

/* Puts the slices of a slab or large run back; returns their bytes. */
static size_t give(hk_slab_t *slab) {
    hk_superslab_t *ss = hk_superslab_of(slab);
    const unsigned cls = slab->cls, slices = slab->slices;
    /* pages that were given back and certainly have no memory */
    const uint64_t gone = cls != 0 ? slab->purged & ~hk_load_relaxed(&slab->lazy) : 0;
    const bool wiped = hk_superslab_is_wiped(slab, 0, slices * HK_SLICE);
    hk_map_set(slab->base, slices, HK_KIND_FREE);
    hk_lock(&hk_pool_lock);
    hk_assert(cls != 0 || !hk_tail_is_held(slab));
    if (HK_UNLIKELY(cls == 0 && (hk_load_relaxed(&slab->free) & HK_TAIL_GONE) != 0))
        note_tail_locked(slab);
    const hk_range_t empty = put_back_locked(ss, slab->first, slices, cls, gone, wiped);
    const bool last = hk_load_relaxed(&in_slabs[cls]) == 0;
    hk_unlock(&hk_pool_lock);
    if (empty.bytes != 0)
        hk_superslab_release(ss, empty);
    if (last && cls >= HK_CLASS_FIXED)
        hk_class_forget(cls);
    return slices * HK_SLICE;
}

/* NULL: out of memory. */
static HK_NOINLINE uint64_t *wide_bits_of(const hk_slab_t *slab) {
    hk_superslab_t *ss = hk_superslab_of(slab);
    hk_wide_bits_t *wide = hk_load_acquire(&ss->wide), *none = NULL;
    if (wide == NULL) {
        wide = hk_meta_alloc(sizeof *wide);
        if (wide == NULL || !hk_cas_seq(&ss->wide, &none, wide))
            /* another thread's, if it was faster; this copy is leaked, at most one for each thread
             * in the race */
            wide = hk_load_acquire(&ss->wide);
    }
    return wide != NULL ? wide->bits[slab->first] : NULL;
}

/* Makes the slices just taken a slab without an owner, or a large run; NULL: no memory for its
 * bitmaps or its shadow. `pending` and the remote bits stay as they are: a thread that freed a
 * block of the slab that was here before may still be about to announce it. */
static hk_slab_t *carve(hk_slab_t *slab) {
    slab->listed = false;
    hk_assert(hk_map_owner(slab->base) != NULL && hk_map_kind(slab->base) == HK_KIND_FREE);
    if (slab->cls == 0) {
        hk_map_set(slab->base, 1, HK_KIND_LARGE);
        hk_map_set(slab->base + HK_SLICE, slab->slices - 1u, HK_KIND_INTERIOR);
        return slab;
    }
    const bool is_wide = hk_class_words(&hk_classes[slab->cls]) > HK_FEW_WORDS;
    slab->bits = is_wide ? wide_bits_of(slab) : slab->few_bits;
    if (HK_UNLIKELY(slab->bits == NULL) || HK_UNLIKELY(!hk_superslab_guard(slab))) {
        slab->zeroed = false; /* its memory has not been cleared */
        give(slab);
        return NULL;
    }
    unsigned blocks = hk_classes[slab->cls].blocks, words = blocks / 64;
    for (unsigned w = 0; w < words; w++)
        slab->bits[w] = UINT64_MAX;
    if (blocks % 64 != 0)
        slab->bits[words++] = ((uint64_t)1 << (blocks % 64)) - 1;
    slab->summary = words == 64 ? UINT64_MAX : ((uint64_t)1 << words) - 1;
    hk_walk(hk_slab_is_valid(slab));
    hk_walk(no_remote_frees(slab));
    hk_map_set(slab->base, slab->slices, slab->cls);
    return slab;
}

static hk_slab_t *take(unsigned slices, unsigned cls, unsigned align) {
    hk_assert(slices >= 1 && slices <= HK_SLICES && cls < HK_CLASS_COUNT);
    hk_assert(cls == 0 || slices == hk_classes[cls].slices);
    hk_assert(hk_is_pow2(align) && align < HK_SLICES && (align == 1 || cls == 0));
    hk_lock(&hk_pool_lock);
    hk_slab_t *slab = take_locked(slices, cls, align);
    hk_unlock(&hk_pool_lock);
    return slab;
}

hk_slab_t *hk_pool_take_mapped(unsigned slices, unsigned cls, unsigned align) {
    hk_slab_t *slab = take(slices, cls, align);
    return slab == NULL ? NULL : carve(slab);
}

/* Waits for the thread that is adding a superslab, for a bounded time: that one may be waiting for
 * a page to be filled (userfaultfd) by the thread that waits here. */
static HK_COLD HK_NOINLINE bool wait_to_add(void) {
    enum { MOST_TRIES = 2000 };
    return hk_lock_patiently(&adding, MOST_TRIES);
}

/* Adds a superslab, one thread at a time: a huge page takes long to bring in, and each thread that
 * finds no slices meanwhile would bring in one more. True: there is a new one, try again. */
static bool take_or_add(unsigned slices, unsigned cls, unsigned align, hk_slab_t **slab) {
    const bool alone = hk_lock_try(&adding) || wait_to_add();
    *slab = take(slices, cls, align);
    const bool more = *slab == NULL && hk_superslab_add(slices, cls);
    if (alone)
        hk_unlock(&adding);
    return more;
}

hk_slab_t *hk_pool_take(unsigned slices, unsigned cls, unsigned align) {
    hk_slab_t *slab = take(slices, cls, align);
    while (slab == NULL && take_or_add(slices, cls, align, &slab))
        continue; /* other threads may have used up the new superslab */
    return slab == NULL ? NULL : carve(slab);
}

/* ---- giving, and look-ups ---- */

size_t hk_pool_give(hk_slab_t *slab) {
    hk_assert(hk_load_relaxed(&slab->owner) == NULL);
    hk_assert(hk_map_owner(slab->base) == hk_superslab_of(slab));
    hk_assert(slab->cls == 0 || hk_load_relaxed(&slab->free) == hk_classes[slab->cls].blocks);
    hk_assert(!slab->listed);
    hk_walk(no_remote_frees(slab));
    return give(slab);
}

/* The block may use its tail again, which brings its memory in. False: a purge holds it. */
static bool drop_tail(hk_slab_t *run) {
    uint16_t tail = hk_load_relaxed(&run->free);
    do {
        if ((tail & HK_TAIL_HELD) != 0)
            return false;
    } while (!hk_cas_seq(&run->free, &tail, 0));
    if ((tail & HK_TAIL_GONE) != 0) {
        hk_count(touched, hk_tail_bytes(tail));
        hk_add_relaxed(&hk_pool_retaken, hk_tail_bytes(tail));
    }
    return true;
}

bool hk_pool_resize(hk_slab_t *slab, unsigned slices) {
    hk_superslab_t *ss = hk_superslab_of(slab);
    const unsigned old = slab->slices, first = slab->first, kept = slices < old ? slices : old;
    char *behind = slab->base + kept * HK_SLICE;
    hk_assert(slab->cls == 0 && slices >= 1 && slices <= HK_SLICES);
    if (!drop_tail(slab))
        return false;
    if (slices == old || first + slices > HK_SLICES)
        return slices == old;
    const uint32_t mask = hk_slice_mask(first + kept, slices + old - 2 * kept);
    hk_map_set(behind, old - kept, HK_KIND_FREE);
    hk_lock(&hk_pool_lock);
    const bool ok = slices < old || (ss->free & mask) == mask;
    if (slices < old) {
        slab->slices = (uint8_t)slices;
        put_back_locked(ss, first + slices, old - slices, 0, 0, false);
    } else if (ok) {
        use_locked(ss, first, first + old, slices - old);
    }
    hk_unlock(&hk_pool_lock);
    hk_map_set(behind, ok ? slices - kept : 0, HK_KIND_INTERIOR);
    return ok;
}

size_t hk_pool_carved(unsigned cls) { return hk_load_relaxed(&in_slabs[cls]) * HK_SLICE; }

_Atomic uint64_t *hk_remote_wide_bits(const hk_slab_t *slab) {
    return hk_load_acquire(&hk_superslab_of(slab)->wide)->remote[slab->first];
}

hk_slab_t *hk_slab_of(const void *p) {
    hk_superslab_t *ss = hk_map_owner(p);
    return ss == NULL ? NULL : &ss->slabs[ss->head[((uintptr_t)p >> HK_SLICE_SHIFT) % HK_SLICES]];
}

void hk_pool_release_empty(void) {
    hk_lock(&hk_pool_lock);
    for (hk_superslab_t *ss; (ss = lists[HK_SLICES]) != NULL; hk_lock(&hk_pool_lock)) {
        const hk_range_t range = hk_superslab_detach_locked(ss);
        hk_unlock(&hk_pool_lock);
        hk_superslab_release(ss, range);
    }
    hk_unlock(&hk_pool_lock);
}
