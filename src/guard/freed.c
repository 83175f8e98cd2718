#include "guard/freed.h"

#include "backend/hoard.h"
#include "backend/limit.h"
#include "backend/pagemap.h"
#include "backend/region.h"
#include "guard/tail.h"
#include "os/os.h"

/* Blocks of up to KEEPS_UP_TO bytes keep their memory: together up to KEEPS_AT_LEAST and a quarter
 * of what such blocks in use have, up to KEEPS_AT_MOST. The larger they are, the fewer of them
 * wait, but at least a few, or the next allocation would find none. */
enum { FEW_PLACES = 3 };
#define KEEPS_AT_LEAST (12 * HK_MIB)
#define KEEPS_AT_MOST (64 * HK_MIB)
#define KEEPS_UP_TO (KEEPS_AT_LEAST / (FEW_PLACES + 2))
static _Atomic size_t kept_bytes, used_bytes; /* atomic: any thread */

static size_t keeps_in_all(void) {
    return hk_min(KEEPS_AT_LEAST + hk_load_relaxed(&used_bytes) / 4, KEEPS_AT_MOST);
}

void hk_freed_note(size_t now, size_t before) {
    const size_t more = now <= KEEPS_UP_TO ? now : 0, less = before <= KEEPS_UP_TO ? before : 0;
    hk_add_relaxed(&used_bytes, more - less); /* wraps around if it is less */
}

static size_t kept_in_all(void) { return hk_load_relaxed(&kept_bytes) + hk_hoard_bytes(); }

bool hk_freed_any(void) { return kept_in_all() != 0; }

void hk_freed_look(const hk_header_t *header) {
    char *body = hk_header_body(header);
    const size_t at = hk_not_zero(body, header->body_bytes);
    if (HK_LIKELY(at == SIZE_MAX))
        return;
    hk_guard_fault(HK_WRITE_AFTER_FREE, body + header->block, header->n,
                   (ptrdiff_t)at - (ptrdiff_t)header->block);
    hk_zero(body, header->body_bytes);
}

static void keeps_no_more(const hk_header_t *header) {
    hk_sub_relaxed(&kept_bytes, header->body_bytes);
    hk_single_is_gone(header->bytes);
}

/* A header that the program has written to cannot be trusted: its mapping is leaked. */
static bool is_whole(const hk_header_t *header) {
    const bool whole = hk_header_is_sealed(header);
    if (HK_UNLIKELY(!whole))
        hk_guard_fault(HK_UNDERFLOW, header, HK_NO_SIZE, HK_NOWHERE);
    return whole;
}

static void unmap(hk_header_t *header) {
    if (!is_whole(header))
        return;
    const hk_header_t h = *header;
    if (h.open)
        hk_freed_look(header);
    if (h.keeps) {
        keeps_no_more(&h);
        hk_held_drop(h.bytes);
    }
    hk_header_leave(header);
    hk_map_set(h.start, h.bytes / HK_SLICE, HK_KIND_FOREIGN);
    if (!hk_os_unmap(h.start, h.bytes)) /* then the addresses stay, without memory */
        hk_os_close(h.start, h.bytes);
}

/* Freed blocks wait here: at most PLACES, of up to WAITS_UP_TO bytes of addresses each, less where
 * address space is limited. Those that keep their memory are put into `kept` afterwards. */
#define WAITS_UP_TO (4096 * HK_MIB)
#define WAITS_LIMITED_UP_TO HK_MIB
#define KEEPS_BELOW (HK_SLICE / 4 * 3) /* offset of the body in its slice */
enum { PLACES = 32, KEPT = 128 };
static _Atomic(hk_header_t *) waiting[PLACES]; /* atomic: any thread */
/* atomic: any thread; the slices in which kept blocks start, with shape_of() in the low bits. 0:
 * empty */
static _Atomic uintptr_t kept[KEPT];
enum { MOST_MORE = 64 };
_Static_assert(KEEPS_UP_TO / HK_SLICE + 1 < MOST_MORE, "it is in the low bits");
_Static_assert((KEEPS_UP_TO / 4096 + 1) * MOST_MORE <= HK_SLICE, "room for both");

/* Encodes a body's and a mapping's size. 0: such a block is not kept, because it is too large or
 * has more addresses than for growing to twice its size. */
static uintptr_t shape_of(size_t body_bytes, size_t bytes) {
    const size_t more = (bytes - body_bytes) / HK_SLICE;
    return body_bytes <= KEEPS_UP_TO && more <= body_bytes / HK_SLICE + 1
               ? body_bytes / hk_os_page_size() * MOST_MORE | more
               : 0;
}

/* Puts `is` (0: nothing) into the place and unmaps the block that had it. */
static void keep_at(unsigned i, uintptr_t is) {
    const uintptr_t was = hk_exchange_seq(&kept[i], is);
    if (was != 0)
        unmap(hk_header_at((void *)was));
}

void hk_freed_trim(void) {
    for (unsigned i = 0; i < PLACES; i++) {
        hk_header_t *header = hk_exchange_seq(&waiting[i], NULL);
        if (header != NULL)
            unmap(header);
    }
    for (unsigned i = 0; i < KEPT; i++)
        keep_at(i, 0);
    hk_hoard_trim();
}

/* Without a free place, a random block is unmapped for it. */
static void keep(hk_header_t *header) {
    const uintptr_t slice = (uintptr_t)hk_header_block(header) & ~(uintptr_t)(HK_SLICE - 1);
    const uintptr_t is = slice | shape_of(header->body_bytes, header->bytes);
    for (unsigned i = 0; i < KEPT; i++) {
        uintptr_t none = 0;
        if (hk_load_relaxed(&kept[i]) == 0 && hk_cas_seq(&kept[i], &none, is))
            return;
    }
    keep_at(hk_guard_chance(KEPT), is);
}

/* How much larger than wanted a body may be: the block must still start in the same slice. */
static size_t may_be_larger_by(size_t body_bytes) {
    return hk_min(body_bytes / 8, HK_SLICE - KEEPS_BELOW);
}

/* Whether a kept block of shape `has` can be made to fit: its mapping is large enough but not twice
 * as large, and if its body is too small, the mapping has room for the rest wherever the body
 * starts in its slice. */
static bool can_fit(uintptr_t has, size_t body_bytes, size_t bytes) {
    const size_t body = has / MOST_MORE * hk_os_page_size();
    const size_t mapping = hk_align_up(body, HK_SLICE) + has % MOST_MORE * HK_SLICE;
    return mapping < 2 * bytes && (body >= body_bytes ? mapping >= bytes : mapping > bytes);
}

static bool fits_as_it_is(uintptr_t has, size_t body_bytes) {
    const size_t body = has / MOST_MORE * hk_os_page_size();
    return body >= body_bytes && body <= body_bytes + may_be_larger_by(body_bytes);
}

/* A kept block of the same body and mapping, or else the one with the nearest body that can be made
 * to fit: where hardly two blocks have the same size, none would match exactly. */
static hk_header_t *kept_one(size_t body_bytes, size_t bytes) {
    const uintptr_t shape = shape_of(body_bytes, bytes);
    const bool as_it_is = body_bytes >= HK_HOARD_FROM && hk_hoard_bytes() != 0;
    for (unsigned best = KEPT;; best = KEPT) {
        uintptr_t is = 0, nearest = UINTPTR_MAX;
        for (unsigned i = 0; i < KEPT && shape != 0 && is % HK_SLICE != shape; i++) {
            const uintptr_t one = hk_load_relaxed(&kept[i]), has = one % HK_SLICE;
            const uintptr_t off = hk_max(has, shape) - hk_min(has, shape);
            if (off < nearest && can_fit(has, body_bytes, bytes) &&
                (!as_it_is || fits_as_it_is(has, body_bytes))) {
                best = i;
                is = one;
                nearest = off;
            }
        }
        if (best == KEPT)
            return NULL;
        if (hk_cas_seq(&kept[best], &is, (uintptr_t)0))
            return hk_header_at((void *)is);
    }
}

/* Makes the body writable again unless it is `open`, and with it the part of the fence that becomes
 * body, up to `has` bytes. Where fences are marks, page protection closed the whole former body. */
static bool reopen(const hk_header_t *header, bool open, size_t has) {
    char *body = hk_header_body(header);
    const size_t had = header->body_bytes, opened = open ? hk_min(had, has) : 0;
    if (!header->marked)
        return has == opened || hk_os_protect(body + opened, has - opened, HK_READ_WRITE);
    return (open || hk_os_protect(body, had, HK_READ_WRITE)) &&
           (has <= had || hk_os_unmark(body + had, has - had));
}

/* Makes the body as large as wanted or a little larger. A surplus becomes part of the fence,
 * without memory; a missing part is taken from the fence. The body becomes writable and zero, which
 * one that is `open` is already. */
static bool fit(hk_header_t *header, bool open, size_t wanted) {
    char *body = hk_header_body(header);
    const size_t had = header->body_bytes, most = wanted + may_be_larger_by(wanted);
    const size_t has = had < wanted || had > most ? wanted : had, stays = hk_min(has, had);
    if (has < had && !hk_header_close(header, body + has, had - has))
        return false;
    if (!reopen(header, open, has))
        return false;
    if (!open)
        hk_zero_written(body, stays);
    keeps_no_more(header);
    header->body_bytes = has;
    return true;
}

enum { ASKED = 16 };
static _Atomic size_t asked[ASKED]; /* atomic: any thread; sizes of the bodies asked for last */

static void note_asked(size_t body_bytes) {
    static atomic_uint next; /* atomic: any thread */
    if (body_bytes >= HK_HOARD_FROM)
        hk_store_relaxed(&asked[hk_add_relaxed(&next, 1u) % ASKED], body_bytes);
}

static unsigned times_asked(size_t least, size_t most) {
    unsigned times = 0;
    for (unsigned i = 0; i < ASKED; i++) {
        const size_t bytes = hk_load_relaxed(&asked[i]);
        times += bytes >= least && bytes <= most;
    }
    return times;
}

hk_header_t *hk_freed_take(size_t body_bytes, size_t bytes) {
    note_asked(body_bytes);
    hk_header_t *header = kept_one(body_bytes, bytes);
    if (header == NULL || !is_whole(header))
        return NULL;
    const bool open = header->open;
    if (open)
        hk_freed_look(header);
    header->open = false; /* first: a signal handler may end the process, which checks open ones */
    atomic_signal_fence(memory_order_seq_cst);
    if (fit(header, open, body_bytes))
        return header;
    unmap(header);
    return NULL;
}

static bool has_room(size_t bytes) { return kept_in_all() + bytes <= keeps_in_all(); }
static bool keeps_too_much(void) { return !has_room(0); }

static bool keeps_one_more(const hk_header_t *header) {
    hk_single_is_kept(header->bytes);
    hk_add_relaxed(&kept_bytes, header->body_bytes);
    const bool fits = !keeps_too_much();
    if (!fits)
        keeps_no_more(header);
    return fits;
}

/* Makes room by unmapping one kept block, the next one after a random place, or a part of the
 * hoard, whichever has more memory. False: there is none. */
static bool let_go_of_any(void) {
    if (hk_hoard_bytes() > hk_load_relaxed(&kept_bytes) && hk_hoard_let_go())
        return true;
    const unsigned from = hk_guard_chance(KEPT);
    unsigned i = 0;
    while (i < KEPT && hk_load_relaxed(&kept[(from + i) % KEPT]) == 0)
        i++;
    if (i < KEPT)
        keep_at((from + i) % KEPT, 0);
    return i < KEPT || hk_hoard_let_go();
}

/* ---- memory apart from addresses (backend/hoard.h) ----
 *
 * A body that keeps its memory serves the next block of its size without a system call, but no
 * other. Where sizes do not come again its memory is moved into the hoard at once; that takes a few
 * calls, and less time than page faults for as much. So it is with bodies too large to keep their
 * memory, once a few have been asked for: a program that needs one or two in all would only hold
 * their memory. */

/* AGAIN is 2 because the block itself is among those asked for. */
static bool is_for_hoard(size_t body_bytes) {
    enum { TRIED_ONCE_IN = 16, AGAIN = 2, OFTEN = 4 };
    if (body_bytes < HK_HOARD_FROM || body_bytes > keeps_in_all() || hk_region_is_bounded())
        return false;
    const bool moves = body_bytes > KEEPS_UP_TO ? times_asked(KEEPS_UP_TO + 1, SIZE_MAX) >= OFTEN
                                                : times_asked(body_bytes, body_bytes) < AGAIN;
    return moves && (hk_hoard_pays() || hk_guard_chance(TRIED_ONCE_IN) == 0);
}

/* As close_body(): moves the body's memory into the hoard, or else drops it. */
static bool hoard(const hk_header_t *header) {
    char *body = hk_header_body(header);
    const size_t bytes = header->body_bytes;
    while (!has_room(bytes) && let_go_of_any())
        continue;
    if (!has_room(bytes) || !hk_os_protect(body, bytes, HK_NO_ACCESS) ||
        !hk_hoard_take_in(body, bytes))
        return hk_os_close(body, bytes);
    return true;
}

/* Whether the body may stay open. Closing and reopening takes two system calls, each of which
 * interrupts the process's other threads; where buffers come and go all the time, that dominates.
 * So closings are budgeted: each millisecond earns one, up to SAVED are saved, and a free gets one
 * with the chance that saved / SAVED gives. The other bodies are only cleared. */
static bool may_be_open(void) {
    enum { SAVED = 64 };
    static _Atomic uint64_t used_up_to; /* atomic: any thread; time spent, in milliseconds */
    const uint64_t now = hk_os_now_ms();
    uint64_t before = hk_load_relaxed(&used_up_to);
    const uint64_t used = hk_max(before, now);
    return hk_guard_chance(SAVED) >= hk_minus(now + SAVED, used) ||
           !hk_cas_seq(&used_up_to, &before, used + 1); /* another thread got the closing */
}

/* Makes the body's contents unreadable, and the body inaccessible unless it stays open. (A block of
 * large alignment may begin in a later slice than its mapping; it is not kept.) */
static bool close_body(hk_header_t *header) {
    char *body = hk_header_body(header);
    const size_t bytes = header->body_bytes;
    if (is_for_hoard(bytes))
        return hoard(header);
    const bool may = shape_of(bytes, header->bytes) != 0 && header->body < KEEPS_BELOW &&
                     !hk_region_is_bounded();
    bool keeps = may && keeps_one_more(header);
    for (unsigned i = 0; i < FEW_PLACES && !keeps && (may || keeps_too_much()); i++)
        keeps = let_go_of_any() && may && keeps_one_more(header);
    const bool open = keeps && may_be_open();
    if (open)
        hk_zero_written(body, bytes);
    atomic_signal_fence(memory_order_seq_cst);
    header->open = open; /* only once clear: a signal handler may end the process */
    header->keeps = keeps && (open || hk_os_protect(body, bytes, HK_NO_ACCESS));
    if (keeps && !header->keeps)
        keeps_no_more(header);
    return header->keeps || hk_header_close(header, body, bytes) || hk_os_close(body, bytes);
}

/* The number of places among which it may wait. */
static unsigned places_of(const hk_header_t *header) {
    const size_t half = keeps_in_all() / 2 / header->body_bytes;
    return header->keeps ? (unsigned)HK_CLAMP(half, FEW_PLACES, PLACES) : PLACES;
}

void hk_freed_give(hk_header_t *header, bool may_wait) {
    const bool few = hk_region_is_bounded() || hk_load_relaxed(&hk_map_is_limited);
    const size_t most = few ? WAITS_LIMITED_UP_TO : WAITS_UP_TO;
    header->keeps = header->open = false; /* these fields are not sealed */
    const bool waits = may_wait && header->bytes <= most && close_body(header);
    if (!header->keeps)
        hk_held_drop(header->bytes);
    if (waits)
        header = hk_exchange_seq(&waiting[hk_guard_chance(places_of(header))], header);
    if (header != NULL && header->keeps)
        keep(header);
    else if (header != NULL)
        unmap(header);
}
