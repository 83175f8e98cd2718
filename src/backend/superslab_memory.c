/* Memory for superslabs: their descriptors, whether huge pages will pay, shadows and holes for the
 * guard, and the way to the region cache and back. */
#include "backend/advise.h"
#include "backend/hugepages.h"
#include "backend/slab.h"
#include "backend/superslab_own.h"
#include "base/counters.h"
#include "config/config.h"

static hk_stock_t stock = HK_STOCK(hk_superslab_t, kept);
/* lock: pool; the superslab that got memory last, which it may have lost since. A look for the
 * newest ones starts here and goes on to older descriptors. */
static hk_superslab_t *newest;
/* written under the pool's lock, read by any thread; bytes, and the most there have been */
static _Atomic size_t mapped, mapped_most;
static atomic_bool shadows;    /* set under the pool's lock; whether slabs get shadows */
static atomic_bool wipes;      /* atomic: any thread; set once; whether free memory reads as zero */
static _Atomic uint16_t early; /* atomic: any thread; the bits of a new slab's blocks */

size_t hk_pool_mapped(void) { return hk_load_relaxed(&mapped); }
size_t hk_pool_mapped_most(void) { return hk_load_relaxed(&mapped_most); }

hk_superslab_t *hk_superslab_next_locked(const hk_superslab_t *ss) {
    hk_assert(hk_lock_is_mine(&hk_pool_lock));
    enum { MOST_SKIPPED = 256 };
    hk_superslab_t *next = ss == NULL ? hk_load_acquire(&stock.all) : ss->kept.next;
    for (unsigned i = 0; i < MOST_SKIPPED && next != NULL && next->base == NULL; i++)
        next = next->kept.next;
    return next;
}

void hk_pool_visit_descriptors(void (*visit)(hk_slab_t *slab)) {
    for (hk_superslab_t *ss = hk_load_acquire(&stock.all); ss != NULL; ss = ss->kept.next)
        for (unsigned i = 0; i < HK_SLICES; i++)
            visit(&ss->slabs[i]);
}

/* ---- shadows ---- */

/* Shadows lie close together, each only as long as its slab's blocks need. Far apart, a superslab's
 * would take a dozen pages instead of a few, and an operation on a block that is in no cache would
 * miss in the TLB once more. */
/* A shadow has one entry more than its slab has blocks (hk_shadow_in), and at its end a link, which
 * a late free cannot overwrite. */
#define SHADOW_LINES(blocks)                                                                       \
    ((((blocks) + 1) * sizeof(uint16_t) + sizeof(void *) + HK_CACHE_LINE - 1) / HK_CACHE_LINE)

/* lock: pool. Apart from the library's variables, which share pages with other data. */
static struct {
    char *next;
    size_t left; /* bytes from `next` on */
    /* by length in lines: shadows without a slab, all 0 except the link */
    _Atomic uint16_t *unused[SHADOW_LINES(HK_SLAB_MAX_BLOCKS) + 1];
} * room; /* const once set; NULL if the heap is not guarded */

static _Atomic uint16_t **link_of(hk_shadow_t shadow) {
    return (_Atomic uint16_t **)(uintptr_t)((char *)shadow.at + shadow.lines * HK_CACHE_LINE) - 1;
}

/* The rest of the last piece is not worth keeping track of. */
static _Atomic uint16_t *fresh_shadow_locked(size_t bytes) {
    enum { PIECE = 64 * HK_KIB };
    if (bytes > room->left) {
        char *piece = hk_meta_alloc(PIECE);
        if (piece == NULL)
            return NULL;
        room->next = piece;
        room->left = PIECE;
    }
    char *p = room->next;
    room->next += bytes;
    room->left -= bytes;
    return (void *)p;
}

static bool take_shadow_locked(hk_shadow_t *shadow, unsigned lines) {
    hk_shadow_t got = {room->unused[lines], lines};
    if (got.at != NULL) {
        room->unused[lines] = *link_of(got);
        *link_of(got) = NULL;
    } else if ((got.at = fresh_shadow_locked(lines * HK_CACHE_LINE)) == NULL) {
        return false;
    }
    *shadow = got;
    return true;
}

/* Blocks that are back in their slab leave no bits behind, except in slabs from before the
 * guard. */
HK_WALKER static void is_zero(hk_shadow_t shadow) {
    for (size_t i = 0; i < shadow.lines * HK_CACHE_LINE / sizeof *shadow.at; i++)
        hk_assert(hk_load_relaxed(&shadow.at[i]) == 0);
}

static void give_shadow_locked(hk_shadow_t shadow, bool zero) {
    if (zero)
        hk_walk(is_zero(shadow));
    else
        hk_zero((void *)(uintptr_t)shadow.at, shadow.lines * HK_CACHE_LINE);
    *link_of(shadow) = room->unused[shadow.lines];
    room->unused[shadow.lines] = shadow.at;
}

/* The slab's shadow, as long as its class needs: the one of its first slice if that has this
 * length. */
static _Atomic uint16_t *shadow_for_locked(const hk_slab_t *slab) {
    hk_superslab_t *ss = hk_superslab_of(slab);
    if (ss->shadows == NULL &&
        (ss->shadows = hk_meta_alloc(HK_SLICES * sizeof *ss->shadows)) == NULL)
        return NULL;
    hk_shadow_t *has = &ss->shadows[slab->first], before = *has;
    const unsigned lines = (unsigned)SHADOW_LINES(hk_classes[slab->cls].blocks);
    if (has->lines != lines) {
        if (!take_shadow_locked(has, lines))
            return NULL;
        if (before.lines != 0)
            give_shadow_locked(before, !hk_load_relaxed(&ss->early));
    }
    return has->at;
}

/* Gives the slab its shadow, in which each block's bits are `as`. They are written only if the
 * superslab ever had bits other than 0 at first; else `as` is 0 and so are they. False: out of
 * memory. */
static bool place_shadow_locked(const hk_slab_t *slab, uint16_t as) {
    hk_superslab_t *ss = hk_superslab_of(slab);
    const unsigned blocks = hk_classes[slab->cls].blocks;
    _Atomic uint16_t *shadow = shadow_for_locked(slab);
    if (shadow == NULL)
        return false;
    for (unsigned i = slab->first; i < slab->first + slab->slices; i++)
        ss->at.slices[i].shadow = shadow, ss->at.slices[i].base = slab->base;
    if (as != 0)
        hk_store_relaxed(&ss->early, true);
    for (unsigned i = 0; hk_load_relaxed(&ss->early) && i <= blocks; i++)
        hk_store_relaxed(&shadow[i], i < blocks ? as : (uint16_t)0);
    return true;
}

/* Zeroes the slab, except pages without memory, which read as zero. */
static HK_COLD void clear(const hk_slab_t *slab) {
    const size_t page = hk_os_page_size();
    const uint64_t none = hk_load_relaxed(&slab->clean) & ~hk_load_relaxed(&slab->lazy);
    for (size_t i = 0; i < slab->slices * HK_SLICE / page; i++)
        if ((none >> i & 1) == 0)
            hk_zero(slab->base + i * page, page);
}

bool hk_superslab_guard(hk_slab_t *slab) {
    if (HK_LIKELY(!hk_load_acquire(&shadows)))
        return true;
    hk_lock(&hk_pool_lock);
    const bool placed = place_shadow_locked(slab, hk_load_relaxed(&early));
    hk_unlock(&hk_pool_lock);
    if (!placed)
        return false;
    if (!slab->zeroed)
        clear(slab);
    slab->zeroed = true;
    return true;
}

bool hk_superslab_wipes(void) { return hk_load_relaxed(&wipes) && hk_load_acquire(&shadows); }

/* Blocks that were free before the guard were not cleared; they still have their early bits. */
bool hk_superslab_is_wiped(const hk_slab_t *slab, size_t from, size_t bytes) {
    const hk_superslab_t *ss = hk_superslab_of(slab);
    if (slab->cls == 0 || !slab->zeroed || !hk_superslab_wipes())
        return false;
    if (HK_LIKELY(!hk_load_relaxed(&ss->early)))
        return true;
    const _Atomic uint16_t *shadow = ss->at.slices[slab->first].shadow;
    const hk_class_t *c = &hk_classes[slab->cls];
    const size_t end = hk_min(hk_class_index(c, from + bytes - 1), c->blocks - 1u);
    for (size_t i = hk_class_index(c, from); i <= end; i++)
        if (hk_load_relaxed(&shadow[i]) != 0)
            return false;
    return true;
}

static void shadow_early_locked(const hk_slab_t *slab, void *all) {
    if (slab->cls != 0 && !place_shadow_locked(slab, hk_load_relaxed(&early)))
        *(bool *)all = false;
}

/* Other threads may run already, and carve slabs as soon as the lock is free. */
bool hk_pool_add_shadows(uint16_t as, bool wiped) {
    hk_store_relaxed(&early, as);
    hk_store_relaxed(&wipes, wiped);
    hk_lock(&hk_pool_lock);
    hk_superslab_t *ss = NULL;
    bool all = (room = hk_meta_alloc(sizeof *room)) != NULL;
    while (all && (ss = hk_superslab_next_locked(ss)) != NULL)
        if (ss->base != NULL)
            hk_superslab_visit_locked(ss, shadow_early_locked, &all);
    hk_store_release(&shadows, all);
    hk_unlock(&hk_pool_lock);
    return all;
}

void hk_pool_all_guarded(void) { hk_store_relaxed(&early, (uint16_t)0); }

/* ---- holes ---- */

/* Makes a slice inaccessible: by a mark in the page tables, which takes no mapping and drops the
 * memory, or by protection. */
static bool dig_hole(char *hole, bool used, bool *marked) {
    if (!hk_region_is_bounded() && hk_os_marks() && hk_os_mark(hole, HK_SLICE))
        return *marked = true;
    if (used)
        hk_advise(hole, HK_SLICE, HK_PURGE);
    return hk_os_protect(hole, HK_SLICE, HK_NO_ACCESS);
}

/* Digs a hole at random in each 8 slices; any slab still fits between some of them. Holes are
 * optional: after a refusal hk_region_save_mappings() ends them. A superslab that a huge page fills
 * gets none: a hole would split the huge page but keep its memory. */
static HK_COLD uint32_t dig_holes(const hk_range_t *range, unsigned cls, bool used, bool *marked) {
    enum { EVERY = 8 };
    uint32_t holes = 0;
    if (cls == 0 || range->bytes != HK_UNIT)
        return 0;
    for (unsigned i = 0; i < HK_SLICES; i += EVERY) {
        const unsigned at = i + hk_region_chance(EVERY);
        char *hole = range->start + at * HK_SLICE;
        if (!dig_hole(hole, used, marked)) {
            hk_region_save_mappings();
            break;
        }
        holes |= hk_slice_mask(at, 1);
    }
    return holes;
}

static HK_COLD bool fill_holes(const hk_superslab_t *ss, const hk_range_t *range) {
    return hk_os_protect(range->start, range->bytes, HK_READ_WRITE) &&
           (!ss->marked || hk_os_unmark(range->start, range->bytes));
}

/* ---- huge pages ---- */

enum { RUNS = 8, PAGES = 2 }; /* large runs that are looked into, and pages of each */

/* Bytes of the newest superslabs, and of the older ones; of the pages looked at in the newest ones'
 * large runs, how many hold something, and the same for pages of these runs' last slices, of which
 * a block may use only a part. */
typedef struct {
    size_t bytes, settled, fresh, untouched, carved, active, old, old_fresh;
    unsigned runs, pages, written, last_pages, last_written;
    hk_os_range_t newest[RUNS]; /* large runs, as they were while the pool was locked */
} sample_t;

/* Looks at two pages in the part of the run that its block certainly uses, and at one of the last
 * slice, at another place for each run. */
static void look_into(const hk_os_range_t *run, sample_t *sample) {
    const char *base = run->start;
    const size_t page = hk_os_page_size(), before = run->bytes - HK_SLICE;
    const size_t last = before + (2 * (sample->last_pages % 4) + 1) * HK_SLICE / 8;
    sample->last_pages++;
    sample->last_written += hk_huge_pages_is_written(base + last / page * page);
    const size_t bytes = before != 0 ? before : HK_SLICE / 2;
    const size_t at[PAGES] = {bytes / 3, bytes / 6 * 5};
    for (unsigned i = 0; i < PAGES; i++, sample->pages++)
        sample->written += hk_huge_pages_is_written(base + at[i] / page * page);
}

/* Clean pages of a slab may never have been touched. Nor may those of blocks of several pages,
 * since programs often use only the start of a buffer: all of these count as untouched. */
static void add_to_sample(const hk_slab_t *slab, void *argument) {
    sample_t *sample = argument;
    const hk_class_t *c = &hk_classes[slab->cls];
    const size_t bytes = slab->slices * HK_SLICE, in_use = c->blocks - hk_load_relaxed(&slab->free);
    const bool small = slab->cls != 0 && c->size <= 2 * hk_os_page_size();
    sample->untouched += small ? hk_slab_clean_bytes(slab) : bytes;
    sample->carved += bytes;
    sample->active += slab->cls == 0 ? bytes : in_use * c->size;
    if (slab->cls == 0 && sample->runs++ < RUNS)
        sample->newest[sample->runs - 1] = (hk_os_range_t){slab->base, bytes};
}

enum { SAMPLE = 8 }; /* superslabs */

/* How much of as many superslabs as the newest would never be carved: the share that is fresh in
 * the settled ones or, if less, in the older ones. Blocks of mixed sizes fill the gaps in the end;
 * blocks of one size do not. */
static size_t never_carved(const sample_t *s) {
    const size_t units = s->bytes / HK_UNIT, fresh = units * s->fresh / (s->settled / HK_UNIT);
    return s->old < SAMPLE * HK_UNIT ? fresh
                                     : hk_min(fresh, units * s->old_fresh / (s->old / HK_UNIT));
}

/* Whether all but an eighth of a superslab with such runs would be touched, judged by
 * never_carved(), the share of last slices that blocks leave, and the pages looked at so far. */
static bool is_filled(const sample_t *s) {
    const size_t each = s->pages != 0 ? s->runs * HK_SLICE / s->last_pages : 0;
    const size_t last = each * (s->last_pages - s->last_written);
    return s->written * 8 >= s->pages * 7 && s->settled != 0 && s->active >= s->carved / 8 * 7 &&
           never_carved(s) + last <= s->bytes / 8;
}

/* The same with a look into the newest large runs. Without the lock: the thread that fills a page
 * (userfaultfd) or swaps it in may take long, and may need the lock. The runs may be other blocks'
 * by now. Each look is a system call, so it ends once too many pages hold nothing. */
static bool is_written(sample_t *s) {
    enum { MOST_PAGES = PAGES * RUNS };
    const size_t runs = hk_min(s->runs, RUNS);
    for (size_t i = 0; i < runs && s->pages - s->written <= MOST_PAGES / 8 && is_filled(s); i++)
        look_into(&s->newest[i], s);
    return s->pages >= MOST_PAGES / 2 && is_filled(s);
}

/* Whether a huge page for a new superslab is likely to be touched all over, so that it saves faults
 * and TLB misses and wastes little. For slabs: little of the newest superslabs is untouched, and
 * that plus one more unit is a small part of all superslabs. For large blocks: there are a few
 * superslabs already, those that are not being filled are carved, and what is carved of the newest
 * is in use and written to. */
static bool is_dense(unsigned cls) {
    enum { FILLING = 2, LOOKS = 64, SHARE = 32, SHARE_OF_NEWEST = 4, LEAST = 4 };
    sample_t s = {0};
    if (cls == 0 && hk_pool_mapped() < LEAST * HK_UNIT)
        return false;
    hk_lock(&hk_pool_lock);
    const hk_superslab_t *ss = newest;
    for (unsigned looks = 0;
         looks < LOOKS && (cls == 0 || s.bytes < SAMPLE * HK_UNIT) && ss != NULL;
         looks++, ss = ss->kept.next) {
        const size_t fresh = (size_t)hk_ones(ss->fresh) * HK_SLICE;
        if (ss->base == NULL)
            continue;
        if (s.bytes == SAMPLE * HK_UNIT) {
            s.old += HK_UNIT;
            s.old_fresh += fresh;
            continue;
        }
        s.bytes += HK_UNIT;
        if (cls != 0 || s.bytes > FILLING * HK_UNIT) {
            s.settled += HK_UNIT;
            s.fresh += fresh;
        }
        hk_superslab_visit_locked(ss, add_to_sample, &s);
    }
    hk_unlock(&hk_pool_lock);
    if (cls == 0)
        return is_written(&s);
    s.untouched += s.fresh;
    return s.untouched < s.bytes / SHARE_OF_NEWEST &&
           s.untouched + HK_UNIT <= hk_pool_mapped() / SHARE;
}

/* ---- superslabs ---- */

/* Takes a unit or, if memory is bounded and no unit is left, the largest part of one that can be
 * had. *used: how much of it may hold old data; *filled: a huge page has brought in all of it. */
static bool take_memory(size_t least, unsigned cls, hk_range_t *range, size_t *used, bool *filled) {
    const bool dense =
        hk_option(thp) != 0 && hk_region_cached() < HK_UNIT && hk_huge_pages_pay() && is_dense(cls);
    if (hk_region_take(HK_UNIT, HK_UNIT, dense ? HK_UNIT : 0, range, used)) {
        if (*used == 0) {
            hk_huge_pages_touch(range->start, dense);
            hk_huge_pages_pass(dense ? 0 : HK_UNIT);
        }
        *filled = dense && *used == 0;
        return true;
    }
    *filled = false;
    for (size_t bytes = HK_UNIT / 2; hk_region_is_bounded() && bytes >= least; bytes /= 2)
        if (hk_region_take(bytes, HK_UNIT, 0, range, used))
            return true;
    return false;
}

bool hk_superslab_add(unsigned slices, unsigned cls) {
    hk_superslab_t *ss = hk_stock_take(&stock);
    hk_range_t range;
    size_t used;
    bool filled;
    if (ss == NULL)
        return false;
    if (!take_memory(slices * HK_SLICE, cls, &range, &used, &filled)) {
        hk_stock_put(&stock, ss);
        return false;
    }
    void *before = hk_map_set_owner(range.start, ss);
    hk_assert(before == NULL); /* no other descriptor has the unit */
    const unsigned count = (unsigned)(range.bytes / HK_SLICE);
    bool marked = false;
    const bool may_have = HK_UNLIKELY(hk_region_scatters()) && !filled;
    const uint32_t holes = may_have ? dig_holes(&range, cls, used != 0, &marked) : 0;
    hk_map_set(range.start, count, HK_KIND_FREE);
    hk_lock(&hk_pool_lock);
    hk_assert(ss->base == NULL && ss->list == 0 && ss->claimed == 0);
    newest = ss;
    ss->base = range.start;
    ss->holes = holes;
    ss->marked = marked;
    ss->whole = ss->free = hk_slice_mask(0, count) & ~holes;
    ss->fresh = used == 0 ? ss->free : 0;
    ss->no_huge_pages = !filled && used == 0;
    ss->filled = filled;
    hk_store_relaxed(&mapped, hk_pool_mapped() + range.bytes);
    hk_store_relaxed(&mapped_most, hk_max(hk_pool_mapped_most(), hk_pool_mapped()));
    hk_pool_relist_locked(ss);
    hk_unlock(&hk_pool_lock);
    return true;
}

hk_range_t hk_superslab_detach_locked(hk_superslab_t *ss) {
    const hk_range_t range = {ss->base, hk_superslab_bytes(ss), ss->holes != 0};
    hk_assert(ss->free == ss->whole);
    if (HK_UNLIKELY(ss->holes != 0) && !fill_holes(ss, &range))
        return (hk_range_t){0};
    const uint32_t dirty = hk_superslab_dirty(ss);
    const size_t pages = hk_superslab_gone(ss, dirty);
    ss->left = (uint32_t)(hk_ones(dirty) * HK_SLICE - pages);
    ss->hollow = hk_ones(ss->purged & ss->fresh) * HK_SLICE + pages > range.bytes / 2;
    ss->base = NULL;
    ss->whole = ss->holes = 0;
    ss->free = ss->fresh = ss->lazy = ss->seen = ss->purged = ss->wiped = 0;
    hk_superslab_forget_gone_locked(ss, UINT32_MAX);
    hk_store_relaxed(&mapped, hk_pool_mapped() - range.bytes);
    hk_pool_relist_locked(ss);
    return range;
}

/* Returns a hollow superslab's range to the system. The cache would count its missing pages as
 * memory, and their next use would not count as brought in. */
static HK_COLD void give_hollow(const hk_superslab_t *ss, hk_range_t range) {
    hk_count(purge_calls, 1);
    hk_count(purge_bytes, ss->left);
    hk_count(superslabs_retired, 1);
    /* counts as taken again at once: the next use is a new mapping, where nothing would notice
     * it */
    hk_add_relaxed(&hk_pool_retaken, range.bytes);
    hk_region_return(range);
}

void hk_superslab_release(hk_superslab_t *ss, hk_range_t range) {
    hk_assert(hk_map_kind(range.start) == HK_KIND_FREE);
    hk_map_set_owner(range.start, NULL);
    if (HK_UNLIKELY(ss->hollow))
        give_hollow(ss, range);
    else
        hk_region_give(range);
    hk_stock_put(&stock, ss);
}
