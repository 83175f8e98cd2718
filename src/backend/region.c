#include "backend/region_own.h"

#include "backend/advise.h"
#include "backend/limit.h"
#include "backend/mappings.h"
#include "base/counters.h"
#include "base/random.h"
#include "stats/sections.h"

/* With a limit below this at its start, a process is bounded. (A limit on addresses that low also
 * refuses the flat map.) */
#define LITTLE ((size_t)2 << 30)

atomic_bool hk_region_bounded;

/* ---- fresh memory ---- */

/* Scattered ranges lie in random places: in every other unit of a window, which itself lies at
 * random, as does the next one when it is full. A window small beside the address space keeps the
 * page map and the page tables small. Processes have at least 46 bits of addresses; where they have
 * fewer, the system places the ranges. Lower addresses are left to programs with a heap of their
 * own (CLISP) and to sanitizers. */
#define WINDOW ((uint64_t)1 << 36)
#define ADDRESSES ((uint64_t)1 << 46)
static _Atomic uint64_t window; /* atomic: any thread; 0: nothing is scattered */
static _Atomic uint64_t places; /* atomic: any thread */

static uint64_t some_window(void) {
    const uint64_t room = ADDRESSES / 4 - WINDOW; /* the third quarter of the addresses */
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

/* Tries 32 random places. So a half-full window passes for full once in 2^32 times; a new window is
 * expensive, since the page map's memory for each stays for ever. */
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

/* The lowest address mapped while mappings were short; 0: none was. The first one lies where a
 * window might, far from where the system puts mappings, which would soon be in the way. */
static _Atomic uintptr_t sparing; /* atomic: any thread */

/* Maps right below the previous range, so that both are one kernel mapping. */
static char *map_sparingly(size_t bytes, size_t align) {
    uintptr_t above = hk_load_relaxed(&sparing);
    char *p = NULL;
    if (above == 0 && hk_load_relaxed(&places) == 0)
        hk_store_relaxed(&places, hk_os_random());
    above = above != 0 ? above : (uintptr_t)some_window();
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

/* Empties the cache for a request of `bytes`, unless that could not be met even then. True:
 * something was given back, by this thread or another. */
static bool make_room(size_t bytes, size_t counted) {
    if (hk_limit_excludes(bytes, counted))
        return false;
    const bool given = hk_region_cached() != 0 && hk_region_trim() != 0;
    return hk_region_await() || given;
}

/* If the system refuses, it may be for want of mappings, so the spare ones go; then the cache goes.
 * The range is tried again after each. */
static char *map_or_make_room(size_t bytes, size_t align, size_t counted) {
    char *start = map_and_commit(bytes, align);
    if (start == NULL && hk_mappings_let_go()) {
        start = map_and_commit(bytes, align);
        if (!hk_mappings_to_spare() && hk_mappings_are_short())
            hk_region_save_mappings();
    }
    return start == NULL && make_room(bytes, counted) ? map_and_commit(bytes, align) : start;
}

/* Maps a fresh range. `moving` bytes of pages will be moved into it: they count once towards the
 * limit. */
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
    /* ranges with the same advice can be one mapping: while mappings are short, no huge pages */
    const size_t huge = hk_mappings_are_short() ? 0 : dense;
    if (huge != 0)
        hk_advise(start, huge, HK_HUGE_PAGES);
    if (huge != bytes) /* where the system gives huge pages unasked, they have to be refused */
        hk_advise(start + huge, bytes - huge, HK_NO_HUGE_PAGES);
    *range = (hk_range_t){start, bytes, huge != 0 && huge != bytes};
    hk_assert(hk_is_aligned((uintptr_t)start, align));
    hk_walk(hk_map_is_valid(start, hk_slices_of(bytes)));
    return true;
}

/* Moves a free range to `to`: at once or, if it may be several kernel mappings, unit by unit.
 * (Older kernels refuse several at once, after they have unmapped the target.) Returns the bytes
 * moved. If that is not all, the rest is in the cache again, and the place of the failed step may
 * be a hole, or hold another thread's mapping by now. */
static size_t move_free(hk_range_t from, char *to) {
    hk_walk(hk_range_is_valid(from));
    hk_assert(hk_is_aligned((uintptr_t)to, HK_UNIT));
    hk_map_set(from.start, from.bytes / HK_SLICE, HK_KIND_FOREIGN);
    size_t step = from.mixed ? HK_UNIT : from.bytes;
    for (size_t at = 0; at < from.bytes; at += step) {
        if (hk_os_move(from.start + at, step, to + at, step))
            continue;
        hk_held_drop(step); /* the place of this step */
        hk_held_add(from.bytes - at);
        hk_store_relaxed(&hk_region_no_moves, (unsigned)HK_PATIENCE);
        /* not kept: the largest range would be tried first again, each time in vain */
        hk_region_unmap((hk_range_t){from.start + at, from.bytes - at, from.mixed});
        return at;
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

/* Moves the n gathered ranges to range->start + at, one behind the other; they are used up in any
 * case. Returns the offset where they end; 0: there is a hole, and all but the hole went back. */
static size_t fill(hk_range_t *range, size_t at, const hk_range_t *gathered, unsigned n) {
    const size_t block = at;
    range->mixed |= n != 0;
    for (unsigned i = 0; i < n; i++) {
        size_t moved = move_free(gathered[i], range->start + at);
        at += moved;
        if (moved == gathered[i].bytes)
            continue;
        /* the parts before and behind the hole go to the cache, as mixed, since their advice may
         * differ; so do the ranges not reached */
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

/* Maps a fresh range and moves up to `wanted` bytes of cached pages to offset `at`, behind pages
 * that will be moved there later; *used: how many. Not inline: the list of ranges takes much of a
 * small stack, which callers with an empty cache do without. */
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
    const bool exact = bytes % HK_UNIT != 0; /* the cache has no exact ranges */
    hk_assert(bytes != 0 && bytes % hk_os_page_size() == 0);
    hk_assert(align % HK_UNIT == 0 && hk_is_pow2(align));
    hk_assert(front == bytes || (front != 0 && front < bytes && front % HK_UNIT == 0));
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

bool hk_region_take_front(size_t bytes, size_t align, size_t dense, size_t front, hk_range_t *range,
                          size_t *used) {
    return HK_TIMED_VALUE(region_take, take(bytes, align, dense, front, range, used));
}

/* Read at the start, since a sandbox may kill the process for asking later, and whenever the
 * process itself sets it. */
static _Atomic size_t data_limit = SIZE_MAX; /* atomic: any thread */

void hk_region_read_data_limit(void) { hk_store_relaxed(&data_limit, (size_t)hk_os_data_limit()); }

void hk_region_init(void) {
    hk_region_read_data_limit();
    const bool few = !hk_map_has_flat() && !hk_os_grants_addresses(LITTLE);
    if (few || hk_load_relaxed(&data_limit) < LITTLE)
        hk_store_relaxed(&hk_region_bounded, true);
}

/* Plenty: 8 times what is handed out. A process to which that is granted is far from its limits and
 * need not save. At most 2^44, which is more than most machines have, since no address space has 8
 * times that; but at least `wanted`. */
static size_t plenty_for(size_t wanted) {
    enum { TIMES = 8, MOST_LOG2 = 44 };
    const size_t plenty = TIMES * hk_max(hk_region_live(), HK_REGION_FIRST_LOOK);
    return hk_align_up(hk_max(hk_min(plenty, (size_t)1 << MOST_LOG2), wanted), HK_UNIT);
}

/* Whether the system grants that much. A refusal may be for want of mappings: it is asked again
 * without the spare ones. */
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

/* Clears the kinds of slices that go before they are unmapped; commits the page map for slices that
 * come. */
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
    const size_t more = new_bytes - range->bytes;
    /* the cache has only whole units */
    if (more % HK_UNIT != 0 || !hk_region_cut_at(hk_range_end(range), more))
        return false;
    range->bytes = new_bytes;
    range->mixed = true;
    hk_region_change_live(0, more);
    return true;
}

/* Moves pages to the start of a fresh range of new_bytes. A kernel that refuses has already
 * unmapped the whole target or none of it, by its version and the reason, and another thread may
 * have mapped memory there since. So where refusals for want of memory are likely, a mark is
 * written to the target first, and looked for after a refusal; elsewhere they are rare, and the
 * mark might cost a huge page. *hole: bytes of the target that are gone, or leaked because that is
 * not known. */
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

/* Puts the rest of a target into the cache or, if it starts within a unit, unmaps it. */
static void leave(hk_range_t rest) {
    if (hk_is_aligned((uintptr_t)rest.start, HK_UNIT)) {
        if (rest.bytes != 0)
            hk_region_keep(rest);
        return;
    }
    if (rest.bytes != 0 && hk_os_unmap(rest.start, rest.bytes))
        hk_held_drop(rest.bytes);
}

/* Moves a block that is several mappings unit by unit, and of its last unit only what is the
 * block's. If the system refuses half-way, the block is copied to a third range, which was mapped
 * before the first step. */
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

/* Moves a block's pages to the start of `to`. If `to` has cached pages at its end it is several
 * mappings. */
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
    else if (rest.bytes != 0) /* it is untouched, and addresses may be short */
        hk_region_unmap(rest);
    return false;
}

/* Moves to a range that is only reserved: inaccessible pages do not count towards a limit on data
 * or commitments. */
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

/* Lets the system choose the place, so that old and new range never exist together. There is no way
 * back if that place does not start at a unit, or if the page map has no memory for it: so the new
 * range has room for both. (From 6.7 on the kernel aligns whole units, if it supports huge
 * pages.) */
static bool move_anywhere(const hk_range_t *range, size_t new_bytes, hk_range_t *to) {
    const size_t spare_bytes = hk_map_spare_for(new_bytes);
    const size_t odd = HK_HOSTILE ? hk_os_page_size() : 0; /* as if the system did not align it */
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

/* The block grows by cached pages first. Where the limits do not allow both ranges at once, it is
 * moved without. */
bool hk_region_move(hk_range_t *range, size_t wanted, size_t new_bytes) {
    hk_walk(hk_range_is_valid(*range));
    hk_assert(new_bytes >= wanted && hk_is_aligned(new_bytes, hk_os_page_size()));
    hk_assert(wanted > range->bytes);
    /* a free in another thread would find the block while its pages move */
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
        if (range->mixed || !(hk_map_has_flat() ? move_to_fence(range, wanted, &to)
                                                : move_anywhere(range, wanted, &to))) {
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
