#include "backend/region_own.h"

#include "backend/advise.h"
#include "backend/limit.h"
#include "backend/mappings.h"
#include "base/counters.h"
#include "base/random.h"
#include "stats/sections.h"

/* With a lower limit from the start on, every unit counts. (One of addresses refuses the flat map.) */
#define LITTLE ((size_t)2 << 30)

atomic_bool hk_region_bounded;

/* ---- fresh memory ---- */

/* Where ranges lie by chance: in every other unit of a window, which lies by chance too, as does the next one
 * where this is full. One that is small next to the address space keeps the tables few, the page map's and the
 * processor's. 46 bits of addresses is what processes have at least; where there are fewer the system places them
 * as it likes. Lower addresses are what programs with a heap of their own (CLISP) and sanitizers want for themselves. */
#define WINDOW ((uint64_t)1 << 36)
#define ADDRESSES ((uint64_t)1 << 46)
static _Atomic uint64_t window; /* atomic: any thread; 0: nothing is scattered */
static _Atomic uint64_t places; /* atomic: any thread */

static uint64_t some_window(void) {
    const uint64_t room = ADDRESSES / 4 - WINDOW; /* the third quarter of it */
    return ADDRESSES / 2 + (uint64_t)hk_region_chance((uint32_t)(room / HK_UNIT)) * HK_UNIT;
}

void hk_region_scatter(uint64_t seed) {
    hk_store_relaxed(&places, seed);
    hk_store_relaxed(&window, some_window());
}

void hk_region_forked(uint64_t seed) { hk_store_relaxed(&places, seed); }

void hk_region_save_mappings(void) {
    hk_store_relaxed(&window, (uint64_t)0);
    hk_store_relaxed(&hk_region_no_moves, (unsigned)HK_PATIENCE);
    hk_store_relaxed(&hk_region_no_cuts, (unsigned)HK_PATIENCE);
}

bool hk_region_scatters(void) { return hk_load_relaxed(&window) != 0; }
uint32_t hk_region_chance(uint32_t end) { return hk_random_shared(&places, end); }

/* A window half full passes for a full one once in 2^32 times: what the page map has of each stays for ever. */
static char *map_in(uint64_t start) {
    enum { TRIES = 32 };
    char *p = NULL;
    for (unsigned i = 0; i < TRIES && p == NULL; i++) {
        const uint64_t place = hk_region_chance((uint32_t)(WINDOW / HK_UNIT / 2));
        p = hk_os_map_at(start + place * 2 * HK_UNIT, HK_UNIT);
    }
    return p;
}

static char *map_somewhere(size_t bytes, size_t align) {
    uint64_t start = hk_load_relaxed(&window);
    char *p = NULL;
    if (HK_UNLIKELY(start != 0) && bytes == HK_UNIT && align == HK_UNIT &&
        (p = map_in(start)) == NULL) {
        const uint64_t next = some_window();
        if (hk_cas_seq(&window, &start, next))
            p = map_in(next);
    }
    return p != NULL ? p : hk_os_map(bytes, align);
}

/* The lowest address of what was mapped while mappings were short; 0: nothing was. The first lies where a window might, far
 * from where the system puts things, or these would soon be in the way. */
static _Atomic uintptr_t sparing; /* atomic: any thread */

static uintptr_t first_to_spare(void) {
    if (hk_load_relaxed(&places) == 0)
        hk_store_relaxed(&places, hk_os_random());
    return (uintptr_t)some_window();
}

/* Below the one before, so that both are one mapping. */
static char *map_sparingly(size_t bytes, size_t align) {
    const uintptr_t known = hk_load_relaxed(&sparing);
    const uintptr_t above = known != 0 ? known : first_to_spare();
    char *p = NULL;
    if (bytes % HK_UNIT == 0 && align == HK_UNIT)
        p = hk_os_map_at(above - bytes, bytes);
    if (p == NULL)
        p = hk_os_map(bytes, align);
    if (p != NULL)
        hk_store_relaxed(&sparing, (uintptr_t)p);
    return p;
}

static char *map_and_commit(size_t bytes, size_t align) {
    char *start =
        hk_mappings_are_short() ? map_sparingly(bytes, align) : map_somewhere(bytes, align);
    return hk_map_committed(start, bytes);
}

/* Whether something has been given back, for so many bytes. */
static bool make_room(size_t bytes, size_t counted) {
    return hk_region_cached() != 0 && !hk_limit_excludes(bytes, counted) && hk_region_trim() != 0;
}

/* What is wanting may be mappings; or else the cache is given up before the request is. */
static char *map_or_make_room(size_t bytes, size_t align, size_t counted) {
    char *start = map_and_commit(bytes, align);
    if (start == NULL && hk_mappings_let_go()) {
        start = map_and_commit(bytes, align);
        if (!hk_mappings_to_spare() && hk_mappings_are_short())
            hk_region_save_mappings();
    }
    return start == NULL && make_room(bytes, counted) ? map_and_commit(bytes, align) : start;
}

/* So many bytes of pages are about to be moved here. */
static bool map_fresh(size_t bytes, size_t align, size_t dense, size_t moving, hk_range_t *range) {
    if (!hk_held_take(bytes, moving) &&
        (!make_room(hk_minus(bytes, moving), 0) || !hk_held_take(bytes, moving)))
        return false;
    char *start = map_or_make_room(bytes, align, bytes - moving);
    if (start == NULL) {
        hk_held_drop(bytes - moving);
        return false;
    }
    hk_count(region_maps, 1);
    /* ranges of one advice are one mapping */
    const size_t huge = hk_mappings_are_short() ? 0 : dense;
    if (huge != 0)
        hk_advise(start, huge, HK_HUGE_PAGES);
    if (huge != bytes) /* where the system gives them to everybody they have to be refused */
        hk_advise(start + huge, bytes - huge, HK_NO_HUGE_PAGES);
    *range = (hk_range_t){start, bytes, huge != 0 && huge != bytes};
    hk_assert(hk_is_aligned((uintptr_t)start, align));
    hk_walk(hk_map_is_valid(start, hk_slices_of(bytes)));
    return true;
}

/* Moves a free range to `to`: at once or, where it is several kernel mappings, unit by unit. (Older
 * kernels refuse several at once, having unmapped the target.) Returns the bytes moved. If they are
 * not all, the rest is in the cache again, and the next step's place may be a hole, which another
 * thread's mapping may be in by now. */
static size_t move_free(hk_range_t from, char *to) {
    hk_walk(hk_range_is_valid(from));
    hk_assert(hk_is_aligned((uintptr_t)to, HK_UNIT));
    hk_map_set(from.start, from.bytes / HK_SLICE, HK_KIND_FOREIGN);
    size_t step = from.mixed ? HK_UNIT : from.bytes;
    for (size_t at = 0; at < from.bytes; at += step) {
        bool moved = hk_os_move(from.start + at, step, to + at, step);
        if (!moved) {
            hk_held_drop(step); /* the hole */
            hk_held_add(from.bytes - at);
            hk_store_relaxed(&hk_region_no_moves, (unsigned)HK_PATIENCE);
            hk_region_keep((hk_range_t){from.start + at, from.bytes - at, from.mixed});
            return at;
        }
    }
    return from.bytes;
}

/* ---- taking and giving ---- */

static size_t bytes_of(const hk_range_t *ranges, unsigned n) {
    size_t bytes = 0;
    while (n != 0)
        bytes += ranges[--n].bytes;
    return bytes;
}

/* Moves the n gathered ranges to range->start + at, one behind the other; they are used up in any case.
 * Returns where they end; 0: there is a hole now, and all but that went back. */
static size_t fill(hk_range_t *range, size_t at, const hk_range_t *gathered, unsigned n) {
    const size_t block = at;
    range->mixed |= n != 0;
    for (unsigned i = 0; i < n; i++) {
        size_t moved = move_free(gathered[i], range->start + at);
        at += moved;
        if (moved == gathered[i].bytes)
            continue;
        /* what lies before and behind the hole goes back, of which a part may want huge pages; so do the ranges not come to */
        size_t hole = gathered[i].mixed ? HK_UNIT : gathered[i].bytes;
        size_t behind = at + hole;
        hk_held_add(block + bytes_of(gathered + i + 1, n - i - 1));
        if (at != 0)
            hk_region_keep((hk_range_t){range->start, at, true});
        if (behind != range->bytes)
            hk_region_keep((hk_range_t){range->start + behind, range->bytes - behind, true});
        while (++i < n)
            hk_region_keep(gathered[i]);
        return 0;
    }
    return at;
}

/* A fresh mapping with what the cache has of `wanted` bytes at `at`, behind what will be moved there; *used receives how much
 * that is. Apart, for the list of ranges takes much of a small stack: who finds the cache empty does without. */
static HK_NOINLINE bool map_filled(size_t bytes, size_t align, size_t dense, size_t at,
                                   size_t wanted, hk_range_t *range, size_t *used) {
    hk_range_t gathered[HK_REGION_GATHERED];
    const unsigned n = hk_region_gather(wanted, gathered);
    *used = bytes_of(gathered, n);
    if ((n == 0 || hk_mappings_may_be_taken()) && map_fresh(bytes, align, dense, at + *used, range))
        return n == 0 || fill(range, at, gathered, n) != 0;
    for (unsigned i = 0; i < n; i++)
        hk_region_keep(gathered[i]);
    return false;
}

static bool take(size_t bytes, size_t align, size_t dense, size_t front, hk_range_t *range,
                 size_t *used) {
    const bool exact = bytes % HK_UNIT != 0; /* which the cache has none of */
    hk_assert(bytes != 0 && bytes % hk_os_page_size() == 0);
    hk_assert(align % HK_UNIT == 0 && hk_is_pow2(align));
    bool taken = !exact && front == bytes && hk_region_fit(bytes, align, range);
    *used = taken ? bytes : 0;
    if (!taken && !exact && hk_mappings_may(&hk_region_no_moves) && hk_region_cached() != 0)
        taken = map_filled(bytes, align, dense, 0, front, range, used);
    if (!taken) {
        *used = 0;
        if (!map_fresh(bytes, align, dense, 0, range))
            return false;
    }
    hk_walk(hk_range_is_valid(*range));
    hk_assert(range->bytes == bytes && hk_is_aligned((uintptr_t)range->start, align));
    hk_assert(*used <= bytes);
    hk_region_change_live(0, bytes);
    return true;
}

bool hk_region_take(size_t bytes, size_t align, size_t dense, hk_range_t *range, size_t *used) {
    return HK_TIMED_VALUE(region_take, take(bytes, align, dense, bytes, range, used));
}

bool hk_region_take_front(size_t bytes, size_t align, size_t dense, size_t front, hk_range_t *range,
                          size_t *used) {
    hk_assert(front != 0 && front <= bytes && front % HK_UNIT == 0);
    return HK_TIMED_VALUE(region_take, take(bytes, align, dense, front, range, used));
}

/* Read at the start, for later a sandbox may kill for asking, and when the process has set it itself. */
static _Atomic size_t data_limit = SIZE_MAX; /* atomic: any thread */

void hk_region_read_data_limit(void) { hk_store_relaxed(&data_limit, (size_t)hk_os_data_limit()); }

void hk_region_init(void) {
    hk_region_read_data_limit();
    const bool few = !hk_map_has_flat() && !hk_os_grants_addresses(LITTLE);
    if (few || hk_load_relaxed(&data_limit) < LITTLE)
        hk_store_relaxed(&hk_region_bounded, true);
}

/* Far from its limit a process need not save: what it has got by then is a small part of the whole. (There are no addresses
 * for any times of what is more than most machines have.) */
static size_t plenty_for(size_t wanted) {
    enum { TIMES = 8, MOST_LOG2 = 44 };
    const size_t plenty = TIMES * hk_max(hk_region_live(), HK_REGION_FIRST_LOOK);
    return hk_align_up(hk_max(hk_min(plenty, (size_t)1 << MOST_LOG2), wanted), HK_UNIT);
}

/* A refusal for want of mappings says nothing of these. */
static bool granted(bool (*grants)(size_t), size_t bytes) {
    if (!hk_mappings_may_be_taken() || grants(bytes))
        return true;
    const bool after_all = hk_mappings_let_go() && grants(bytes);
    hk_mappings_to_spare();
    return after_all;
}

bool hk_region_grants_addresses(size_t wanted) {
    return granted(hk_os_grants_addresses, plenty_for(wanted));
}

bool hk_region_look_at_bounds(size_t wanted) {
    hk_store_relaxed(&hk_region_look_is_due, false);
    const size_t plenty = plenty_for(wanted);
    if (hk_region_is_bounded() || (hk_load_relaxed(&data_limit) >= plenty && !hk_limit_is_near() &&
                                   granted(hk_os_grants_commitment, plenty)))
        return false;
    hk_store_relaxed(&hk_region_bounded, true);
    return true;
}

void hk_region_give(hk_range_t range) {
    hk_region_change_live(range.bytes, 0);
    HK_TIMED(region_give, hk_region_keep(range));
}

void hk_region_return(hk_range_t range) {
    hk_region_change_live(range.bytes, 0);
    hk_map_set(range.start, hk_slices_of(range.bytes), HK_KIND_FREE);
    hk_region_unmap(range);
}

/* Kind bytes of what goes are cleared first, page-map entries of what comes can be set then. */
static bool resize_exact(hk_range_t *range, size_t new_bytes) {
    hk_assert(new_bytes != 0 && hk_is_aligned(new_bytes, hk_os_page_size()));
    size_t before = range->bytes, kept = hk_slices_of(hk_min(before, new_bytes));
    const size_t more = hk_minus(new_bytes, before);
    if (more != 0 && (!hk_map_commit(range->start, new_bytes) || !hk_held_take(more, 0)))
        return false;
    if (hk_slices_of(before) > kept)
        hk_map_set(range->start + kept * HK_SLICE, hk_slices_of(before) - kept, HK_KIND_FOREIGN);
    const bool resized = hk_os_remap(range->start, before, new_bytes, false) != NULL;
    hk_held_drop(resized ? before + more - new_bytes : more);
    if (!resized)
        return false;
    hk_region_change_live(before, new_bytes);
    hk_count(touched, more);
    range->bytes = new_bytes;
    return true;
}

bool hk_region_extend(hk_range_t *range, size_t new_bytes) {
    hk_walk(hk_range_is_valid(*range));
    if (hk_range_is_exact(range))
        return resize_exact(range, new_bytes);
    hk_assert(new_bytes > range->bytes);
    size_t more = new_bytes - range->bytes;
    if (more % HK_UNIT != 0) /* the cache has whole units */
        return false;
    const bool found = hk_region_cut_at(hk_range_end(range), more);
    if (found) {
        range->bytes = new_bytes;
        range->mixed = true;
        hk_region_change_live(0, more);
    }
    return found;
}

/* Moves pages to fresh memory of ours, of which so many bytes go with them. A system that refuses has unmapped all of
 * that before, or nothing of it, by its version and its reason, and what has been unmapped may be somebody else's by
 * then: so a word is written there that tells, where it may be for want of memory; elsewhere that is rare, and the word
 * might cost a huge page. *hole: what there is no more, or is left alone because nobody knows. */
static bool move_marked(char *from, size_t bytes, char *to, size_t new_bytes, size_t *hole) {
    uint32_t *word = (uint32_t *)(void *)to;
    const uint32_t mark = (uint32_t)((uintptr_t)from / HK_UNIT) | 1u << 31;
    const bool marks = hk_region_is_bounded();
    if (marks)
        *word = mark;
    const bool moved = hk_os_move(from, bytes, to, new_bytes);
    *hole = moved || (marks && hk_os_is(word, mark)) ? 0 : new_bytes;
    hk_held_drop(*hole);
    return moved;
}

/* What is left of a place is for the cache, unless it begins within a unit. */
static void leave(hk_range_t rest) {
    if (hk_is_aligned((uintptr_t)rest.start, HK_UNIT)) {
        if (rest.bytes != 0)
            hk_region_keep(rest);
        return;
    }
    if (rest.bytes != 0 && hk_os_unmap(rest.start, rest.bytes))
        hk_held_drop(rest.bytes);
}

/* Moves the pages of a block, which are several mappings, unit by unit, and no more of the last one than is the block's.
 * Where the system stops half-way all of it is copied to a third place, which is there before the first step. */
static bool move_units(hk_range_t *from, hk_range_t *to, size_t *hole) {
    hk_range_t third;
    size_t at = 0;
    *hole = 0;
    if (!map_fresh(to->bytes, HK_UNIT, 0, to->bytes, &third))
        return false;
    for (size_t step; at < from->bytes; at += step) {
        step = hk_min(HK_UNIT, from->bytes - at);
        if (!move_marked(from->start + at, step, to->start + at, step, hole))
            break;
    }
    hk_held_add(third.bytes);
    if (at != 0 && at < from->bytes) {
        const size_t behind = at + *hole;
        hk_held_add(from->bytes - at);
        memcpy(third.start, to->start, at);
        memcpy(third.start + at, from->start + at, from->bytes - at);
        hk_region_keep((hk_range_t){to->start, at, true});
        leave((hk_range_t){to->start + behind, to->bytes - behind, true});
        hk_region_keep((hk_range_t){from->start + at, from->bytes - at, true});
        *to = third;
        hk_store_relaxed(&hk_region_no_moves, (unsigned)HK_PATIENCE);
        return true;
    }
    hk_region_unmap(third);
    return at != 0;
}

/* With pages from the cache at its end the new place is several mappings. */
static bool move_block(hk_range_t *from, hk_range_t *to) {
    size_t hole;
    const size_t with = to->mixed ? from->bytes : to->bytes;
    to->mixed |= from->mixed;
    if (from->mixed ? move_units(from, to, &hole)
                    : move_marked(from->start, from->bytes, to->start, with, &hole))
        return true;
    hk_held_add(from->bytes);
    const hk_range_t rest = {to->start + hole, to->bytes - hole, true};
    if (to->mixed)
        leave(rest);
    else if (rest.bytes != 0) /* untouched, and addresses may be what is wanting */
        hk_region_unmap(rest);
    return false;
}

/* To a place that is only reserved as yet: pages that nobody can write to are nothing to a limit on those. */
static bool move_to_fence(const hk_range_t *range, size_t new_bytes, hk_range_t *to) {
    if (!hk_held_take(new_bytes, range->bytes))
        return false;
    char *start = hk_map_committed(hk_os_fence(new_bytes, HK_UNIT), new_bytes);
    *to = (hk_range_t){start, new_bytes, false};
    size_t hole = 0;
    if (to->start != NULL && hk_os_protect(to->start, hk_os_page_size(), HK_READ_WRITE) &&
        move_marked(range->start, range->bytes, to->start, new_bytes, &hole)) {
        hk_count(region_maps, 1);
        return true;
    }
    if (to->start != NULL && hole == 0)
        hk_os_unmap(to->start, new_bytes);
    hk_held_add(range->bytes);
    hk_held_drop(new_bytes - hole);
    return false;
}

static void unmap_between(char *start, const char *end) {
    if (start != end)
        hk_os_unmap(start, (size_t)(end - start));
}

/* The system chooses the place, which therefore need not be there beside the old one. There is no way back if it is one
 * between two units, or if the page map has no memory for it: the place has room for both. (From 6.7 on the system aligns
 * whole units, where it knows of huge pages.) */
static bool move_anywhere(const hk_range_t *range, size_t new_bytes, hk_range_t *to) {
    const size_t spare_bytes = hk_map_spare_for(new_bytes);
    const size_t odd = HK_HOSTILE ? hk_os_page_size() : 0; /* and the system does not align it */
    const size_t room = hk_align_up(new_bytes + HK_UNIT + spare_bytes, HK_UNIT) + odd;
    if (!hk_held_take(room - range->bytes, 0))
        return false;
    char *start = hk_os_remap(range->start, range->bytes, room, true);
    if (start == NULL) {
        hk_held_drop(room - range->bytes);
        return false;
    }
    hk_count(region_maps, 1);
    *to = (hk_range_t){(char *)hk_align_up((uintptr_t)start, HK_UNIT), new_bytes, false};
    if (to->start != start)
        memmove(to->start, start, range->bytes);
    char *const spare = start + room - spare_bytes, *unused = spare;
    hk_map_commit_from(to->start, new_bytes, &unused);
    unmap_between(start, to->start);
    unmap_between(hk_range_end(to), unused == spare ? start + room : spare);
    if (unused != spare)
        unmap_between(unused, start + room);
    hk_held_drop(room - new_bytes);
    return true;
}

/* Where old and new place together are too much. */
static bool move_with_little(const hk_range_t *range, size_t new_bytes, hk_range_t *to) {
    if (range->mixed)
        return false;
    return hk_map_has_flat() ? move_to_fence(range, new_bytes, to)
                             : move_anywhere(range, new_bytes, to);
}

/* What the block grows by comes from the cache first. */
bool hk_region_move(hk_range_t *range, size_t wanted, size_t new_bytes) {
    hk_walk(hk_range_is_valid(*range));
    hk_assert(new_bytes >= wanted && hk_is_aligned(new_bytes, hk_os_page_size()));
    hk_assert(wanted > range->bytes);
    /* else a free in another thread would still find the block while its pages move */
    hk_assert(hk_map_kind(range->start) == HK_KIND_FOREIGN);
    const size_t more = wanted - range->bytes;
    const bool units = !hk_range_is_exact(range) && wanted % HK_UNIT == 0;
    size_t used = 0;
    hk_range_t to;
    if (!hk_mappings_may(&hk_region_no_moves) || !hk_mappings_may_be_taken())
        return false;
    const bool filled = units && hk_region_cached() != 0
                            ? map_filled(new_bytes, HK_UNIT, 0, range->bytes, more, &to, &used)
                            : map_fresh(new_bytes, HK_UNIT, 0, range->bytes, &to);
    if (!filled || !move_block(range, &to)) {
        used = 0;
        if (!move_with_little(range, wanted, &to)) {
            if (filled)
                hk_store_relaxed(&hk_region_no_moves, (unsigned)HK_PATIENCE);
            return false;
        }
    }
    hk_region_change_live(0, to.bytes - range->bytes);
    hk_count(touched, to.bytes - range->bytes - used);
    *range = to;
    return true;
}
