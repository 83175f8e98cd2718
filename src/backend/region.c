#include "backend/region.h"

#include "backend/pagemap.h"
#include "base/lock.h"
#include "os/os.h"

enum { CACHE_SLOTS = 64 };

typedef struct {
    char *start;
    size_t bytes;
} piece_t;

static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_REGION);
/* lock: region, down to the counters. Invariant: cached == sum of cache[0..cache_count).bytes */
static piece_t cache[CACHE_SLOTS];
static unsigned cache_count;
static size_t cached;
static size_t live;
static size_t limit = HK_HOSTILE ? 4 * HK_MIB : 64 * HK_MIB;
static size_t maps, unmaps;

static bool is_aligned(const piece_t *piece, size_t align) {
    return ((uintptr_t)piece->start & (align - 1)) == 0;
}

static piece_t remove_locked(unsigned i) {
    piece_t piece = cache[i];
    cache[i] = cache[--cache_count];
    cached -= piece.bytes;
    return piece;
}

/* The caller knows that there is a free slot. */
static void add_locked(piece_t piece) {
    hk_assert(cache_count < CACHE_SLOTS && piece.bytes % HK_SLICE == 0 && piece.bytes != 0);
    cache[cache_count++] = piece;
    cached += piece.bytes;
}

/* Cuts `bytes` off the front of cached piece i and leaves the rest cached. */
static piece_t cut_locked(unsigned i, size_t bytes) {
    piece_t piece = remove_locked(i);
    hk_assert(bytes <= piece.bytes);
    if (bytes < piece.bytes)
        add_locked((piece_t){piece.start + bytes, piece.bytes - bytes});
    piece.bytes = bytes;
    return piece;
}

/* The smallest cached piece that holds `bytes`, an aligned one before any other; CACHE_SLOTS: none. */
static unsigned best_fit_locked(size_t bytes, size_t align) {
    unsigned best = CACHE_SLOTS;
    for (unsigned i = 0; i < cache_count; i++) {
        if (cache[i].bytes < bytes)
            continue;
        if (best == CACHE_SLOTS) {
            best = i;
            continue;
        }
        bool aligned = is_aligned(&cache[i], align), best_aligned = is_aligned(&cache[best], align);
        if (aligned != best_aligned ? aligned : cache[i].bytes < cache[best].bytes)
            best = i;
    }
    return best;
}

static unsigned largest_locked(void) {
    unsigned best = 0;
    for (unsigned i = 1; i < cache_count; i++)
        if (cache[i].bytes > cache[best].bytes)
            best = i;
    return best;
}

/* Takes up to `most` pieces, the largest first, that together hold at most `bytes`. */
static unsigned gather_locked(size_t bytes, unsigned most, piece_t *out) {
    unsigned n = 0;
    while (n < most && bytes > 0 && cache_count > 0) {
        unsigned i = largest_locked();
        out[n] = cut_locked(i, hk_min(bytes, cache[i].bytes));
        bytes -= out[n++].bytes;
    }
    return n;
}

static void unmap(piece_t piece) {
    hk_map_set(piece.start, piece.bytes / HK_SLICE, HK_KIND_FOREIGN);
    if (hk_os_unmap(piece.start, piece.bytes)) {
        hk_lock(&lock);
        unmaps++;
        hk_unlock(&lock);
    }
}

/* Moves pieces one behind the other to `to`, a fresh mapping. A piece that the kernel will not move is
 * dropped and its place mapped afresh. False: the range has a hole and is of no use. */
static bool assemble(char *to, const piece_t *pieces, unsigned n) {
    bool whole = true;
    for (unsigned i = 0; i < n; i++) {
        hk_map_set(pieces[i].start, pieces[i].bytes / HK_SLICE, HK_KIND_FOREIGN);
        if (!hk_os_move(pieces[i].start, pieces[i].bytes, to, pieces[i].bytes)) {
            unmap(pieces[i]);
            whole = whole && hk_os_map_at(to, pieces[i].bytes);
        }
        to += pieces[i].bytes;
    }
    return whole;
}

/* How much of a freed piece fits under the bound. */
static size_t room_locked(void) {
    size_t bound = hk_max(limit, live / 4);
    return cached >= bound ? 0 : (bound - cached) & ~(HK_SLICE - 1);
}

/* Makes room for a piece by evicting the smallest one, if that is smaller than `bytes`. */
static piece_t evict_locked(size_t bytes) {
    unsigned least = 0;
    for (unsigned i = 1; i < cache_count; i++)
        if (cache[i].bytes < cache[least].bytes)
            least = i;
    return cache[least].bytes < bytes ? remove_locked(least) : (piece_t){NULL, 0};
}

static void give(char *start, size_t bytes, bool was_live) {
    piece_t evicted = {NULL, 0};
    hk_lock(&lock);
    if (was_live)
        live -= bytes;
    size_t keep = hk_min(bytes, room_locked());
    hk_map_set(start, keep / HK_SLICE, HK_KIND_FREE); /* a second free is then seen as one */
    if (keep != 0 && cache_count == CACHE_SLOTS) {
        evicted = evict_locked(keep);
        if (evicted.bytes == 0)
            keep = 0;
    }
    if (keep != 0)
        add_locked((piece_t){start, keep});
    hk_unlock(&lock);
    if (keep < bytes)
        unmap((piece_t){start + keep, bytes - keep});
    if (evicted.bytes != 0)
        unmap(evicted);
}

/* Maps a fresh range and moves the gathered pieces to its front. */
static bool take_fresh(size_t bytes, size_t align, const piece_t *pieces, unsigned n,
                       hk_range_t *range) {
    char *start = hk_os_map(bytes, align);
    if (start == NULL || !hk_map_commit(start, bytes)) {
        if (start != NULL)
            hk_os_unmap(start, bytes);
        for (unsigned i = 0; i < n; i++)
            give(pieces[i].start, pieces[i].bytes, false);
        return false;
    }
    if (!assemble(start, pieces, n)) {
        hk_os_unmap(start, bytes);
        return false;
    }
    *range = (hk_range_t){.start = start, .pieces = n};
    for (unsigned i = 0; i < n; i++) {
        range->bytes[i] = pieces[i].bytes;
        range->used += pieces[i].bytes;
    }
    if (range->used < bytes)
        range->bytes[range->pieces++] = bytes - range->used;
    return true;
}

static void count_taken(size_t bytes, bool mapped) {
    hk_lock(&lock);
    live += bytes;
    maps += mapped;
    hk_unlock(&lock);
}

bool hk_region_take(size_t bytes, size_t align, unsigned most_pieces, hk_range_t *range) {
    hk_assert(bytes % HK_SLICE == 0 && bytes != 0 && align >= HK_GRANULE && most_pieces >= 1);
    piece_t pieces[HK_REGION_PIECES];
    unsigned n = 0;
    hk_lock(&lock);
    unsigned fit = best_fit_locked(bytes, align);
    if (fit != CACHE_SLOTS) {
        bool in_place = is_aligned(&cache[fit], align);
        pieces[n++] = cut_locked(fit, bytes);
        if (in_place) {
            live += bytes;
            hk_unlock(&lock);
            *range = (hk_range_t){
                .start = pieces[0].start, .used = bytes, .pieces = 1, .bytes = {bytes}};
            return true;
        }
    } else if (most_pieces > 1) {
        /* one piece is left for the fresh memory behind the gathered ones */
        n = gather_locked(bytes, (unsigned)hk_min(most_pieces, HK_REGION_PIECES) - 1, pieces);
    }
    hk_unlock(&lock);
    if (!take_fresh(bytes, align, pieces, n, range)) {
        if (n == 0 || !take_fresh(bytes, align, NULL, 0, range))
            return false;
    }
    count_taken(bytes, true);
    return true;
}

void hk_region_give(char *start, size_t bytes) { give(start, bytes, true); }

bool hk_region_move(hk_range_t *range, size_t new_bytes, size_t align) {
    if (range->pieces != 1)
        return false;
    size_t bytes = range->bytes[0];
    hk_assert(new_bytes > bytes);
    char *to = hk_os_map(new_bytes, align);
    if (to == NULL)
        return false;
    /* moving may fail only before anything has moved, so the old place is then still whole */
    if (!hk_map_commit(to, new_bytes) || !hk_os_move(range->start, bytes, to, new_bytes)) {
        hk_os_unmap(to, new_bytes);
        return false;
    }
    range->start = to;
    range->bytes[0] = new_bytes;
    count_taken(new_bytes - bytes, true);
    return true;
}

size_t hk_region_trim(void) {
    size_t total = 0;
    for (;;) {
        hk_lock(&lock);
        piece_t piece = cache_count == 0 ? (piece_t){NULL, 0} : remove_locked(0);
        hk_unlock(&lock);
        if (piece.bytes == 0)
            return total;
        unmap(piece);
        total += piece.bytes;
    }
}

void hk_region_set_cache_limit(size_t bytes) {
    hk_lock(&lock);
    limit = bytes;
    hk_unlock(&lock);
}

hk_region_stats_t hk_region_stats(void) {
    hk_lock(&lock);
    hk_region_stats_t stats = {.live = live, .cached = cached, .maps = maps, .unmaps = unmaps};
    hk_unlock(&lock);
    return stats;
}

void hk_region_lock(void) { hk_lock(&lock); }
void hk_region_unlock(void) { hk_unlock(&lock); }
