#include "backend/written.h"

#include "backend/hugepages.h"

/* The written part of a block is measured in sixteenths, each at least a slice. Of FEW blocks at a
 * time the largest part counts; after KNOWN blocks a size is known. */
enum { PARTS = 16, FEW = 8, KNOWN = 2 };

typedef struct {
    uint8_t now, before; /* sixteenths; the most of the latest blocks, and of the FEW before */
    uint8_t seen;        /* how many blocks `now` is of */
    bool known;
} seen_t;

/* atomic: any thread; by the highest bit of a block's units, and the two bits below it */
static _Atomic(seen_t) sizes[4 * 28];

static _Atomic(seen_t) *size_of(size_t bytes) {
    const size_t quarters = 4 * (bytes / HK_UNIT);
    hk_assert(bytes != 0 && bytes % HK_UNIT == 0);
    const unsigned doubling = 61 - (unsigned)__builtin_clzll(quarters);
    return &sizes[4 * doubling + (quarters >> doubling) % 4];
}

/* atomic: any thread; the bytes asked for last, plus how often they were asked for again in a
 * row */
static _Atomic size_t asked;
enum { AGAIN = 8 };

void hk_written_asked(size_t bytes) {
    const size_t before = hk_load_relaxed(&asked), times = before % HK_UNIT;
    if (before - times != bytes)
        hk_store_relaxed(&asked, bytes);
    else if (times < AGAIN)
        hk_store_relaxed(&asked, before + 1);
}

size_t hk_written_usually(size_t bytes) {
    const seen_t size = hk_load_relaxed(size_of(bytes));
    const size_t parts = hk_max(size.before, size.now);
    if (!size.known || parts == 0 || hk_load_relaxed(&asked) == bytes + AGAIN)
        return bytes;
    return hk_align_up(bytes / PARTS * parts, HK_UNIT);
}

static void note(size_t bytes, unsigned parts) {
    seen_t size = hk_load_relaxed(size_of(bytes));
    hk_assert(parts <= PARTS);
    size.now = (uint8_t)hk_max(size.now, parts);
    size.known |= ++size.seen == KNOWN;
    if (size.seen == FEW)
        size = (seen_t){.before = size.now, .known = true};
    hk_store_relaxed(size_of(bytes), size);
}

/* Looks first at the last part, which tells whether the block was filled, then right behind what it
 * was given, which tells whether it needed more; then bisects for the border, as if all before it
 * were written to. If that is not so, the next block faults it in again. */
size_t hk_written_of(const char *start, size_t bytes, size_t clean) {
    const size_t part = bytes / PARTS;
    const unsigned given = (unsigned)((clean + part - 1) / part);
    unsigned low = (unsigned)hk_max(given, 1), high = PARTS;
    if (given >= PARTS)
        return bytes; /* too little of it can be looked at */
    for (unsigned looks = 0; low < high; looks++) {
        const unsigned look = looks == 0 ? PARTS - 1 : looks == 1 ? low : (low + high) / 2;
        if (hk_huge_pages_is_written(start + look * part))
            low = look + 1;
        else
            high = look;
    }
    if (high == given)
        return hk_align_up(clean, HK_UNIT);
    note(bytes, high > 1 || hk_huge_pages_is_written(start + HK_SLICE) ? high : 0);
    return hk_align_up(high * part, HK_UNIT);
}
