#include "backend/hoard.h"

#include "backend/limit.h"
#include "backend/mappings.h"
#include "os/os.h"

/* A piece: the number of its first OS page and, in the COUNT_BITS below, its number of pages; 0:
 * none. If a piece is larger than what is wanted, the rest stays, unless it is hardly worth a
 * mapping. */
enum { PIECES = 64, COUNT_BITS = 16, LEAST_PAGES = 16 };
static _Atomic uint64_t pieces[PIECES]; /* atomic: any thread */
static _Atomic size_t hoarded;          /* atomic: any thread; bytes */
/* The share of handed-out memory that had not been written to, in units of 1 / WHOLE. */
#define WHOLE ((size_t)1 << 16)
static _Atomic size_t empty; /* atomic: any thread */
/* After a refusal (a body that has grown is several mappings, for instance) the hoard takes in
 * nothing for this many bodies (backend/mappings.h). */
enum { PATIENCE = 16 };
static atomic_uint patience; /* atomic: any thread; how many of these are left */

static size_t pages_of(uint64_t piece) { return piece & ((1u << COUNT_BITS) - 1); }
static size_t bytes_of(uint64_t piece) { return pages_of(piece) * hk_os_page_size(); }
static char *start_of(uint64_t piece) {
    return (char *)(uintptr_t)((piece >> COUNT_BITS) * hk_os_page_size());
}

static uint64_t piece_at(const char *start, size_t bytes) {
    const size_t page = hk_os_page_size();
    return (uint64_t)((uintptr_t)start / page) << COUNT_BITS | bytes / page;
}

static void comes(size_t bytes) {
    hk_held_add(bytes);
    hk_single_is_kept(bytes);
    hk_add_relaxed(&hoarded, bytes);
}

static void goes(size_t bytes) {
    hk_sub_relaxed(&hoarded, bytes);
    hk_single_is_gone(bytes);
    hk_held_drop(bytes);
}

static void drop(uint64_t piece) {
    goes(bytes_of(piece));
    if (!hk_os_unmap(start_of(piece), bytes_of(piece)))
        hk_os_close(start_of(piece), bytes_of(piece));
}

/* Takes the smallest piece of at least `pages` pages or else the largest one; 0: there is none. */
static uint64_t take(size_t pages) {
    for (unsigned best = PIECES;; best = PIECES) {
        uint64_t is = 0;
        for (unsigned i = 0; i < PIECES; i++) {
            const uint64_t one = hk_load_relaxed(&pieces[i]);
            const size_t has = pages_of(one), had = pages_of(is);
            if (had < pages ? has > had : has >= pages && has < had) {
                best = i;
                is = one;
            }
        }
        if (best == PIECES || hk_cas_seq(&pieces[best], &is, (uint64_t)0))
            return is;
    }
}

bool hk_hoard_let_go(void) {
    const uint64_t piece = take(1);
    if (piece != 0)
        drop(piece);
    return piece != 0;
}

/* Stores a piece. If all places are taken the smallest piece goes. */
static void put(uint64_t piece) {
    do
        for (unsigned i = 0; i < PIECES; i++) {
            uint64_t none = 0;
            if (hk_load_relaxed(&pieces[i]) == 0 && hk_cas_seq(&pieces[i], &none, piece))
                return;
        }
    while (hk_hoard_let_go());
    drop(piece); /* other threads keep filling the places */
}

bool hk_hoard_take_in(void *body, size_t bytes) {
    if (bytes / hk_os_page_size() >= (size_t)1 << COUNT_BITS || !hk_mappings_may(&patience))
        return false;
    char *start = hk_os_move_away(body, bytes);
    if (start == NULL) {
        hk_store_relaxed(&patience, (unsigned)PATIENCE);
        return false;
    }
    comes(bytes);
    put(piece_at(start, bytes));
    return true;
}

bool hk_hoard_hand_out(void *body, size_t bytes, size_t *dirty) {
    const bool any = bytes >= HK_HOARD_FROM && hk_hoard_bytes() != 0;
    const uint64_t piece = any ? take(bytes / hk_os_page_size()) : 0;
    char *start = start_of(piece);
    const size_t rest = hk_minus(bytes_of(piece), bytes);
    *dirty = bytes_of(piece) - rest;
    if (piece == 0)
        return true;
    if (!hk_os_move(start, *dirty, body, bytes)) {
        drop(piece);
        hk_store_relaxed(&patience, (unsigned)PATIENCE);
        return false;
    }
    goes(*dirty);
    if (rest >= LEAST_PAGES * hk_os_page_size())
        put(piece_at(start + *dirty, rest));
    else if (rest != 0)
        drop(piece_at(start + *dirty, rest));
    return true;
}

/* A moving average: each report counts an eighth. */
void hk_hoard_learn(size_t dirty, size_t written) {
    const size_t was = hk_load_relaxed(&empty);
    hk_store_relaxed(&empty, was - was / 8 + WHOLE / 8 - WHOLE / 8 * written / dirty);
}

bool hk_hoard_pays(void) { return hk_load_relaxed(&empty) < WHOLE / 8 * 7; }

size_t hk_hoard_bytes(void) { return hk_load_relaxed(&hoarded); }

void hk_hoard_visit(void (*visit)(const void *start, size_t bytes, void *argument),
                    void *argument) {
    for (unsigned i = 0; i < PIECES; i++) {
        const uint64_t piece = hk_load_relaxed(&pieces[i]);
        if (piece != 0)
            visit(start_of(piece), bytes_of(piece), argument);
    }
}

void hk_hoard_trim(void) {
    while (hk_hoard_let_go())
        continue;
}
